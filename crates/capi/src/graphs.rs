//! C functions for graphs of objects. They are sound for the reasons given in `border`.

use std::borrow::Cow;
use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use front::graph::{Collection, Graph, GraphError, Identity, Mode, Stage};
use front::objects::ObjectError;
use front::structures::StructureError;
use front::txn::Vote;

use crate::border::{Handle, PANICKED, Uncancelled, bytes, free, put_text, room, text, with_opened};
use crate::opened::Opened;
use crate::options::{CollectedSoFar, GraphChoices, GraphStatistics, given};
use crate::status::{Failure, Result, Status, of_pages};

/// Target of a `cedrat_graph *`. It keeps its store open.
pub(crate) struct GraphHandle {
    // Dropped first: it contains a reference to the store.
    pub(crate) graph: Graph,
    opened: Arc<Opened>,
    message: Mutex<String>,
}

/// Target of a `cedrat_graph_collection *`. It keeps its graph open.
pub(crate) struct CollectionHandle {
    collection: Collection,
    graph: Arc<GraphHandle>,
}

impl GraphHandle {
    /// Stores the text of a failure for later requests.
    fn failed(&self, failure: Failure) -> Status {
        *self.message.lock().unwrap_or_else(PoisonError::into_inner) = failure.text.into_owned();
        failure.status
    }
}

/// Converts an error of a graph to a failure of the C interface.
#[cold]
pub(crate) fn failure_of(error: front::Error) -> Failure {
    let cause = GraphError::cause(&error);
    let status = match cause {
        front::Error::Deadlock(_) => Some(Status::Aborted),
        front::Error::InDoubt { .. } => Some(Status::InDoubt),
        // All other errors of these types cannot occur here, or concern the changes.
        front::Error::User(_) => match (GraphError::of(cause), ObjectError::of(cause), StructureError::of(cause)) {
            (Some(GraphError::NoSuchObject { .. }), ..) => Some(Status::Unknown),
            (Some(GraphError::ClassDropped { .. }), ..) => Some(Status::ClassDropped),
            (Some(GraphError::TooManyNew { .. }), ..) => Some(Status::Limit),
            (Some(GraphError::Corrupt { .. }), ..) => Some(Status::Damaged),
            (_, Some(ObjectError::CacheFull { .. }), _) => Some(Status::Limit),
            (
                _,
                _,
                Some(
                    StructureError::NoSuchName { .. }
                    | StructureError::Gone { .. }
                    | StructureError::NoSuchRecord { .. }
                    | StructureError::WrongRoot { .. },
                ),
            ) => Some(Status::Unknown),
            _ => Some(Status::Misuse),
        },
        front::Error::LogFull { .. } => Some(Status::LogFull),
        front::Error::TooLarge { .. } => Some(Status::Limit),
        front::Error::ReadOnly => Some(Status::ReadOnly),
        front::Error::Damaged(_) => Some(Status::Damaged),
        front::Error::Pages(error) => Some(of_pages(error)),
        front::Error::Io { .. } => Some(Status::Io),
        _ => None,
    };
    match status {
        Some(status) => Failure::new(status, error.to_string()),
        None => error.into(),
    }
}

/// Calls the library for a graph, and converts every outcome into a status.
///
/// # Safety
/// 2 of `border`.
unsafe fn with(graph: *const GraphHandle, work: impl FnOnce(&GraphHandle) -> Result<()>) -> Status {
    let _whole = Uncancelled::begin();
    // SAFETY: 2; it is freed when no call uses it any more.
    let Some(graph) = (unsafe { graph.as_ref() }) else { return Status::Null };
    said(graph, catch_unwind(AssertUnwindSafe(|| work(graph))))
}

fn said(graph: &GraphHandle, came_to: std::thread::Result<Result<()>>) -> Status {
    match came_to {
        Ok(Ok(())) => Status::Ok,
        Ok(Err(failure)) => graph.failed(failure),
        Err(_) => {
            graph.opened.stop(PANICKED);
            graph.failed(Failure::new(Status::Panic, PANICKED))
        }
    }
}

/// A write-only buffer of C.
pub(crate) struct Buffer {
    first: *mut u8,
    capacity: usize,
}

impl Buffer {
    /// # Safety
    /// 1 and 4 of `border`; until it is dropped.
    pub(crate) unsafe fn new(first: *mut c_void, capacity: usize, what: &'static str) -> Result<Buffer> {
        if first.is_null() && capacity > 0 {
            return Err(Failure::null(what));
        }
        Ok(Buffer { first: first.cast(), capacity })
    }

    /// Copies the bytes to offset `at` if they fit; returns whether they do.
    fn put(&mut self, at: usize, bytes: &[u8]) -> bool {
        if at > self.capacity || bytes.len() > self.capacity - at {
            return false;
        }
        if !bytes.is_empty() {
            // SAFETY: the caller of `new` guarantees 1 and 4; the range lies within the buffer, which does not overlap our
            // memory.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.first.add(at), bytes.len()) };
        }
        true
    }

    /// Copies the bytes to the beginning, as `put` does; or returns the failure that contains the required length.
    pub(crate) fn fill(&mut self, bytes: &[u8]) -> Result<()> {
        match self.put(0, bytes) {
            true => Ok(()),
            false => Err(too_short(bytes.len(), self.capacity)),
        }
    }
}

#[cold]
fn too_short(needed: usize, capacity: usize) -> Failure {
    let text = format!("{needed} bytes are to be written, and there is room for {capacity}; call again with more");
    Failure::new(Status::Limit, text)
}

fn identity(number: u64) -> Result<Identity> {
    let none = || Failure::new(Status::Unknown, format!("{number:#x} is no identity that an object can have"));
    Identity::new(number).ok_or_else(none)
}

pub(crate) fn put_identities(room_for: &mut Buffer, identities: &[Identity]) {
    for (index, identity) in identities.iter().enumerate() {
        let fits = room_for.put(8 * index, &identity.get().to_ne_bytes());
        debug_assert!(fits, "there are at most as many as there is room for");
    }
}

/// `cedrat_graph_open`.
///
/// # Safety
/// 1 and 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_graph_open(
    store: *const Opened,
    name: *const c_char,
    options: *const GraphChoices,
    graph: *mut *const GraphHandle,
) -> Status {
    let open = |opened: &Arc<Opened>| {
        // SAFETY: 1.
        let (name, options, result) = unsafe { (text(name, "name")?, given(options), room(graph, "graph")?) };
        result.write(std::ptr::null());
        let (options, must_exist) = options.to_options()?;
        let open = if must_exist { Graph::open } else { Graph::open_or_create };
        let graph = open(opened.store()?, name, options).map_err(failure_of)?;
        let handle = GraphHandle { graph, opened: Arc::clone(opened), message: Mutex::default() };
        result.write(Arc::into_raw(Arc::new(handle)));
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with_opened(store, open) }
}

/// `cedrat_graph_close`.
///
/// # Safety
/// 2 of `border`, and no other call uses the graph.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_graph_close(graph: *const GraphHandle) {
    let _whole = Uncancelled::begin();
    if graph.is_null() {
        return;
    }
    // SAFETY: 2; it was returned by `Arc::into_raw`, with its reference.
    let free = || drop(unsafe { Arc::from_raw(graph) });
    // There is no handle left to report a panic to.
    let _ = catch_unwind(AssertUnwindSafe(free));
}

/// `cedrat_graph_message`.
///
/// # Safety
/// 1, 2 and 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_graph_message(
    graph: *const GraphHandle,
    message: *mut c_char,
    message_len: usize,
) -> Status {
    let ask = |graph: &GraphHandle| {
        let text = graph.message.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // SAFETY: 1 and 4.
        unsafe {
            room(message, "message")?;
            put_text(&text, message, message_len);
        }
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with(graph, ask) }
}

/// `cedrat_graph_define_class`.
///
/// # Safety
/// 1, 2 and 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_graph_define_class(
    graph: *const GraphHandle,
    definition: *const c_void,
    size: usize,
    class: *mut u32,
) -> Status {
    let define = |graph: &GraphHandle| {
        // SAFETY: 1 and 4.
        let (definition, class) = unsafe { (bytes(definition, size, "definition")?, room(class, "class")?) };
        class.write(0);
        class.write(graph.graph.define_class(definition).map_err(failure_of)?);
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with(graph, define) }
}

/// `cedrat_graph_get_class`.
///
/// # Safety
/// 1, 2 and 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_graph_get_class(
    graph: *const GraphHandle,
    class: u32,
    definition: *mut c_void,
    capacity: usize,
    size: *mut usize,
) -> Status {
    let get = |graph: &GraphHandle| {
        // SAFETY: 1 and 4.
        let (mut definition, size) = unsafe { (Buffer::new(definition, capacity, "definition")?, room(size, "size")?) };
        size.write(0);
        let Some(found) = graph.graph.class(class) else {
            let count = graph.graph.classes_len();
            if (1..=count).contains(&class) {
                size.write(usize::MAX);
                return Err(Failure::new(Status::Unknown, format!("class {class} was dropped")));
            }
            let text = format!("class {class} is not defined; there are {count}, from 1 up");
            return Err(Failure::new(Status::Unknown, text));
        };
        size.write(found.len());
        definition.fill(&found)
    };
    // SAFETY: 2.
    unsafe { with(graph, get) }
}

/// `cedrat_graph_get_root`.
///
/// # Safety
/// 1 and 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_graph_get_root(
    graph: *const GraphHandle,
    name: *const c_char,
    reference: *mut u64,
) -> Status {
    let get = |graph: &GraphHandle| {
        // SAFETY: 1.
        let (name, reference) = unsafe { (text(name, "name")?, room(reference, "reference")?) };
        reference.write(0);
        reference.write(graph.graph.root(name).map_err(failure_of)?.unwrap_or_default().word());
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with(graph, get) }
}

/// `cedrat_graph_get_roots`.
///
/// # Safety
/// 1, 2 and 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_graph_get_roots(
    graph: *const GraphHandle,
    roots: *mut c_void,
    capacity: usize,
    size: *mut usize,
) -> Status {
    let get = |graph: &GraphHandle| {
        // SAFETY: 1 and 4.
        let (mut roots, size) = unsafe { (Buffer::new(roots, capacity, "roots")?, room(size, "size")?) };
        size.write(0);
        let mut entries = front::graph::Changes::new();
        for (name, to) in graph.graph.roots().map_err(failure_of)? {
            entries.set_root(&name, to);
        }
        size.write(entries.as_bytes().len());
        roots.fill(entries.as_bytes())
    };
    // SAFETY: 2.
    unsafe { with(graph, get) }
}

/// `cedrat_graph_read`.
///
/// # Safety
/// 1, 2 and 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_graph_read(
    graph: *const GraphHandle,
    object: u64,
    buffer: *mut c_void,
    capacity: usize,
    size: *mut usize,
) -> Status {
    let read = |graph: &GraphHandle| {
        // SAFETY: 1 and 4.
        let (mut buffer, size) = unsafe { (Buffer::new(buffer, capacity, "buffer")?, room(size, "size")?) };
        size.write(0);
        let object = graph.graph.read(identity(object)?).map_err(failure_of)?;
        size.write(object.len());
        buffer.fill(&object)
    };
    // SAFETY: 2.
    unsafe { with(graph, read) }
}

/// `cedrat_graph_read_many`.
///
/// # Safety
/// 1, 2 and 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_graph_read_many(
    graph: *const GraphHandle,
    objects: *const u64,
    count: usize,
    buffer: *mut c_void,
    capacity: usize,
    offsets: *mut usize,
    read: *mut usize,
) -> Status {
    let read_many = |graph: &GraphHandle| {
        // SAFETY: 1 and 4; identities may be unaligned, so they are read as bytes.
        let (objects, mut buffer, read) = unsafe {
            let objects = bytes(objects.cast(), count.saturating_mul(8), "objects")?;
            (objects, Buffer::new(buffer, capacity, "buffer")?, room(read, "read")?)
        };
        read.write(0);
        // SAFETY: 1 and 4; there is space for one more than there are objects.
        unsafe { room(offsets, "offsets")? }.write(0);
        let mut at = 0;
        for (index, number) in objects.as_chunks().0.iter().enumerate() {
            let found = match Identity::new(u64::from_ne_bytes(*number)).map(|identity| graph.graph.read(identity)) {
                Some(Ok(object)) => Cow::Owned(object),
                Some(Err(error)) => match GraphError::of(&error) {
                    Some(GraphError::NoSuchObject { .. }) => Cow::Borrowed(&[][..]),
                    _ => return Err(failure_of(error)),
                },
                None => Cow::Borrowed(&[][..]),
            };
            let end = at + found.len();
            let fits = buffer.put(at, &found);
            // SAFETY: as above.
            unsafe { room(offsets.wrapping_add(index + 1), "offsets")? }.write(end);
            if !fits {
                return if index == 0 { Err(too_short(end, capacity)) } else { Ok(()) };
            }
            at = end;
            read.write(index + 1);
        }
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with(graph, read_many) }
}

pub(crate) fn mode_of_graph(mode: c_int) -> Result<Mode> {
    match mode {
        0 => Ok(Mode::Sync),
        1 => Ok(Mode::Async),
        _ => Err(Failure::new(Status::Misuse, "the mode of this commit is CEDRAT_SYNC or CEDRAT_ASYNC")),
    }
}

/// `cedrat_graph_commit`.
///
/// # Safety
/// 1, 2 and 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_graph_commit(
    graph: *const GraphHandle,
    changes: *const c_void,
    size: usize,
    mode: c_int,
    identities: *mut u64,
    capacity: usize,
    lsn: *mut u64,
) -> Status {
    let commit = |graph: &GraphHandle| {
        // SAFETY: 1 and 4.
        let (changes, mut room_for) = unsafe {
            (
                bytes(changes, size, "changes")?,
                Buffer::new(identities.cast(), capacity.saturating_mul(8), "identities")?,
            )
        };
        // SAFETY: 1; null means that it is not wanted.
        let lsn = unsafe { room(lsn, "lsn") }.ok();
        let mode = mode_of_graph(mode)?;
        let changed = graph.graph.commit_at_most(changes, mode, capacity as u64).map_err(failure_of)?;
        put_identities(&mut room_for, &changed.identities);
        if let Some(lsn) = lsn {
            lsn.write(changed.lsn().get());
        }
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with(graph, commit) }
}

/// `cedrat_graph_prepare`.
///
/// # Safety
/// 1, 2 and 4 of `border`.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "the header's")]
pub(crate) unsafe extern "C" fn cedrat_graph_prepare(
    graph: *const GraphHandle,
    changes: *const c_void,
    size: usize,
    id: *const c_void,
    id_len: usize,
    identities: *mut u64,
    capacity: usize,
    read_only: *mut c_int,
) -> Status {
    let prepare = |graph: &GraphHandle| {
        // SAFETY: 1 and 4.
        let (changes, id, mut room_for) = unsafe {
            (
                bytes(changes, size, "changes")?,
                bytes(id, id_len, "id")?,
                Buffer::new(identities.cast(), capacity.saturating_mul(8), "identities")?,
            )
        };
        let branch = graph.graph.prepare_at_most(changes, id, capacity as u64).map_err(failure_of)?;
        put_identities(&mut room_for, &branch.identities);
        // SAFETY: 1; null means that it is not wanted.
        if let Ok(read_only) = unsafe { room(read_only, "read_only") } {
            read_only.write(c_int::from(matches!(branch.vote, Vote::ReadOnly)));
        }
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with(graph, prepare) }
}

/// `cedrat_graph_get_branch`.
///
/// # Safety
/// 1, 2 and 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_graph_get_branch(
    graph: *const GraphHandle,
    id: *const c_void,
    id_len: usize,
    changed: *mut c_void,
    capacity: usize,
    size: *mut usize,
) -> Status {
    let get = |graph: &GraphHandle| {
        // SAFETY: 1 and 4.
        let (id, mut changed, size) =
            unsafe { (bytes(id, id_len, "id")?, Buffer::new(changed, capacity, "changed")?, room(size, "size")?) };
        size.write(0);
        let none = || Failure::new(Status::Unknown, "no branch of the graph is in doubt under this identifier");
        let (objects, roots) = graph.graph.changed_by_branch(id).ok_or_else(none)?;
        let mut entries = front::graph::Changes::new();
        for object in objects {
            entries.patch(object, 0, &[]);
        }
        for name in &roots {
            entries.remove_root(name);
        }
        size.write(entries.as_bytes().len());
        changed.fill(entries.as_bytes())
    };
    // SAFETY: 2.
    unsafe { with(graph, get) }
}

/// `cedrat_graph_get_statistics`.
///
/// # Safety
/// 1 and 2 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_graph_get_statistics(
    graph: *const GraphHandle,
    statistics: *mut GraphStatistics,
) -> Status {
    let ask = |graph: &GraphHandle| {
        let of_cache = graph.graph.statistics();
        let log = graph.graph.store().log();
        // SAFETY: 1.
        unsafe { room(statistics, "statistics")? }.write(GraphStatistics {
            classes: graph.graph.classes_len().into(),
            cache_hits: of_cache.hits,
            cache_misses: of_cache.misses,
            cache_evictions: of_cache.evictions,
            cache_flushes: of_cache.flushes,
            cache_records: of_cache.records,
            cache_bytes: of_cache.bytes,
            newest_lsn: log.current_lsn().get(),
            stable_lsn: log.durable_lsn().get(),
            reserved: [0; 7],
        });
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with(graph, ask) }
}

// ---- collections --------------------------------------------------------------------------------------------------

/// Calls the library as `with` does, for the graph of a collection.
///
/// # Safety
/// 2 and 3 of `border`.
unsafe fn with_collection(
    collection: *mut CollectionHandle,
    work: impl FnOnce(&mut Collection) -> Result<()>,
) -> Status {
    let _whole = Uncancelled::begin();
    // SAFETY: 2 and 3.
    let Some(CollectionHandle { collection, graph }) = (unsafe { collection.as_mut() }) else { return Status::Null };
    said(graph, catch_unwind(AssertUnwindSafe(|| work(collection))))
}

/// Returns identities from C, aligned or not; zeros and invalid identities are skipped.
///
/// # Safety
/// 1 and 4 of `border`.
unsafe fn identities<'a>(numbers: *const u64, count: usize) -> Result<impl Iterator<Item = Identity> + 'a> {
    // SAFETY: 1 and 4.
    let numbers = unsafe { bytes(numbers.cast(), count.saturating_mul(8), "alive")? };
    Ok(numbers.as_chunks().0.iter().filter_map(|&number| Identity::new(u64::from_ne_bytes(number))))
}

fn number(stage: Stage) -> c_int {
    match stage {
        Stage::Marking => 0,
        Stage::Marked => 1,
        Stage::Sweeping => 2,
        Stage::Done => 3,
    }
}

/// `cedrat_graph_collect_begin`.
///
/// # Safety
/// 1, 2 and 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_graph_collect_begin(
    graph: *const GraphHandle,
    alive: *const u64,
    count: usize,
    collection: *mut *mut CollectionHandle,
) -> Status {
    let begin = |handle: &GraphHandle| {
        // SAFETY: 1 and 4.
        let (alive, result) = unsafe { (identities(alive, count)?, room(collection, "collection")?) };
        result.write(std::ptr::null_mut());
        let collection = handle.graph.collect(alive).map_err(failure_of)?;
        // SAFETY: 2; the handle was returned by `Arc::into_raw`, and keeps its reference.
        let graph = unsafe {
            Arc::increment_strong_count(graph);
            Arc::from_raw(graph)
        };
        result.write(Box::into_raw(Box::new(CollectionHandle { collection, graph })));
        Ok(())
    };
    // SAFETY: 2.
    unsafe { with(graph, begin) }
}

/// `cedrat_graph_collect_step`.
///
/// # Safety
/// 1, 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_graph_collect_step(
    collection: *mut CollectionHandle,
    budget: usize,
    stage: *mut c_int,
) -> Status {
    let step = |collection: &mut Collection| {
        // SAFETY: 1.
        let stage = unsafe { room(stage, "stage")? };
        stage.write(number(collection.stage()));
        stage.write(number(collection.step(budget).map_err(failure_of)?));
        Ok(())
    };
    // SAFETY: 2 and 3.
    unsafe { with_collection(collection, step) }
}

/// `cedrat_graph_collect_seal`.
///
/// # Safety
/// 1, 2, 3 and 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_graph_collect_seal(
    collection: *mut CollectionHandle,
    alive: *const u64,
    count: usize,
    stage: *mut c_int,
) -> Status {
    let seal = |collection: &mut Collection| {
        // SAFETY: 1 and 4.
        let (alive, stage) = unsafe { (identities(alive, count)?, room(stage, "stage")?) };
        stage.write(number(collection.stage()));
        stage.write(number(collection.seal(alive).map_err(failure_of)?));
        Ok(())
    };
    // SAFETY: 2 and 3.
    unsafe { with_collection(collection, seal) }
}

/// `cedrat_graph_collect_get_unused_classes`.
///
/// # Safety
/// 1, 2, 3 and 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_graph_collect_get_unused_classes(
    collection: *mut CollectionHandle,
    classes: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> Status {
    let get = |collection: &mut Collection| {
        // SAFETY: 1 and 4.
        let (mut classes, count) =
            unsafe { (Buffer::new(classes.cast(), capacity.saturating_mul(4), "classes")?, room(count, "count")?) };
        count.write(0);
        let unused = collection.unused_classes().map_err(failure_of)?;
        count.write(unused.len());
        classes.fill(&unused.iter().flat_map(|number| number.to_ne_bytes()).collect::<Vec<u8>>())
    };
    // SAFETY: 2 and 3.
    unsafe { with_collection(collection, get) }
}

/// `cedrat_graph_collect_drop_classes`.
///
/// # Safety
/// 1, 2, 3 and 4 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_graph_collect_drop_classes(
    collection: *mut CollectionHandle,
    classes: *const u32,
    count: usize,
    dropped: *mut c_int,
) -> Status {
    let drop_them = |collection: &mut Collection| {
        // SAFETY: 1 and 4.
        let (classes, dropped) =
            unsafe { (bytes(classes.cast(), count.saturating_mul(4), "classes")?, room(dropped, "dropped")?) };
        dropped.write(0);
        let numbers: Vec<u32> = classes.as_chunks().0.iter().map(|&number| u32::from_ne_bytes(number)).collect();
        dropped.write(c_int::from(collection.drop_classes(&numbers).map_err(failure_of)?.is_some()));
        Ok(())
    };
    // SAFETY: 2 and 3.
    unsafe { with_collection(collection, drop_them) }
}

/// `cedrat_graph_collect_get`.
///
/// # Safety
/// 1, 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_graph_collect_get(
    collection: *mut CollectionHandle,
    collected: *mut CollectedSoFar,
) -> Status {
    let get = |collection: &mut Collection| {
        let so_far = collection.collected();
        // SAFETY: 1.
        unsafe { room(collected, "collected")? }.write(CollectedSoFar {
            marked: so_far.marked,
            objects: so_far.objects,
            pieces: so_far.pieces,
            mark_bytes: so_far.mark_bytes,
            reserved: [0; 4],
        });
        Ok(())
    };
    // SAFETY: 2 and 3.
    unsafe { with_collection(collection, get) }
}

/// `cedrat_graph_collect_free`.
///
/// # Safety
/// 2 and 3 of `border`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cedrat_graph_collect_free(collection: *mut CollectionHandle) {
    // SAFETY: 2; it came from `Box::into_raw`.
    unsafe { free(collection) };
}
