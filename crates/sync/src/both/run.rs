//! A run of the seeded scheduler: its threads, the locks that they hold, and what they wait for.
//!
//! All threads of a run are coroutines on the thread of the system that started it, so its state is one of that thread. It lies
//! behind a mutex only because the watchdog describes a run that hangs.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use crate::limits::{Hang, Limits, first_seed};
use parking_lot::Mutex;
use shuttle::scheduler::{RandomScheduler, Schedule, Scheduler, Task, TaskId};

pub(crate) type Place = &'static Location<'static>;

/// The limits of a search through interleavings. A suite that goes through hundreds of recoveries in one schedule takes about a
/// million steps.
const EXPLORED: Limits = Limits { steps_max: 20_000_000, time_max: Duration::from_secs(3600) };

/// Stack of a scheduled thread: enough for recovery and for formatting a panic.
const STACK_BYTES: usize = 1 << 20;

thread_local! {
    static SCHEDULED: Cell<bool> = const { Cell::new(false) };
    /// The place of the step before which a thread lets the scheduler choose.
    static PLACE: Cell<Option<Place>> = const { Cell::new(None) };
    static RUN: RefCell<Option<Arc<Run>>> = const { RefCell::new(None) };
}

/// Whether the calling thread is one of a scheduled run.
#[inline]
pub fn is_scheduled() -> bool {
    SCHEDULED.get()
}

/// Lets the scheduler choose the next thread, before the step at `place`.
pub(crate) fn switch(place: Place) {
    PLACE.set(Some(place));
    // A plain step: no time passes, and unlike `yield_now` it does not ask the scheduler to prefer other threads.
    shuttle::thread::sleep(Duration::ZERO);
}

/// Precedes an operation that other threads can observe.
#[inline]
#[track_caller]
pub(crate) fn point() {
    if is_scheduled() {
        switch(Location::caller());
    }
}

struct Run {
    state: Mutex<State>,
    steps: AtomicU64,
}

#[derive(Default)]
struct State {
    names: BTreeMap<usize, String>,
    /// By thread.
    waits: BTreeMap<usize, Wait>,
    /// By address of the lock: its holders, and where they took it.
    held: BTreeMap<usize, Vec<(usize, Place)>>,
    /// For the choice among waiting threads.
    chance: Chance,
}

struct Wait {
    /// Address of the object.
    on: usize,
    what: &'static str,
    place: Place,
    thread: shuttle::thread::Thread,
}

fn with<R>(act: impl FnOnce(&mut State) -> R) -> R {
    RUN.with_borrow(|run| act(&mut run.as_ref().expect("a scheduled run").state.lock()))
}

fn me() -> usize {
    shuttle::current::me().into()
}

pub(crate) fn name_thread(thread: usize, name: String) {
    with(|state| state.names.insert(thread, name));
}

/// Notes that this thread has taken a lock.
pub(crate) fn taken(lock: usize, place: Place) {
    let me = me();
    with(|state| state.held.entry(lock).or_default().push((me, place)));
}

/// Notes that this thread has released a lock, and wakes the threads that wait for it.
pub(crate) fn released(lock: usize) {
    let me = me();
    with(|state| {
        if let Some(holders) = state.held.get_mut(&lock) {
            let at = holders.iter().rposition(|&(thread, _)| thread == me).unwrap_or(0);
            holders.remove(at);
            if holders.is_empty() {
                state.held.remove(&lock);
            }
        }
    });
    wake(lock, true);
}

/// Waits until a thread of this run releases the lock.
pub(crate) fn wait_for_lock(lock: usize, what: &'static str, place: Place) {
    if with(|state| state.held.contains_key(&lock)) {
        begin_wait(lock, what, place);
        end_wait();
    } else {
        // A thread outside of this run holds it.
        std::thread::yield_now();
        shuttle::thread::yield_now();
    }
}

/// Enters this thread among those that wait; no wake-up from here on is lost.
pub(crate) fn begin_wait(on: usize, what: &'static str, place: Place) {
    let (me, thread) = (me(), shuttle::thread::current());
    with(|state| state.waits.insert(me, Wait { on, what, place, thread }));
}

/// Sleeps until the wake-up.
pub(crate) fn end_wait() {
    let me = me();
    while with(|state| state.waits.contains_key(&me)) {
        shuttle::thread::park();
    }
}

/// Runs `wait`, which the scheduler itself ends, as a wait for something other than a lock.
pub(crate) fn waiting<R>(on: usize, what: &'static str, place: Place, wait: impl FnOnce() -> R) -> R {
    begin_wait(on, what, place);
    let result = wait();
    let me = me();
    with(|state| state.waits.remove(&me));
    result
}

/// Wakes one of the threads that wait on an object, or all of them.
pub(crate) fn wake(on: usize, all: bool) {
    let woken = with(|state| {
        let mut threads: Vec<usize> =
            state.waits.iter().filter(|(_, wait)| wait.on == on).map(|(&thread, _)| thread).collect();
        if !all && threads.len() > 1 {
            let at = state.chance.index(threads.len());
            threads = vec![threads[at]];
        }
        threads.iter().filter_map(|thread| state.waits.remove(thread)).collect::<Vec<_>>()
    });
    woken.iter().for_each(|wait| wait.thread.unpark());
}

/// Random numbers: the generator splitmix64.
#[derive(Default)]
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn index(&mut self, len: usize) -> usize {
        (self.next() % len as u64) as usize
    }
}

impl State {
    fn name(&self, thread: usize) -> String {
        match self.names.get(&thread) {
            Some(name) => format!("thread {thread} ({name})"),
            None => format!("thread {thread}"),
        }
    }

    /// Describes what each thread waits for, a line each, and the waits-for cycle among them if there is one.
    fn describe(&self) -> String {
        let mut lines: Vec<String> = self.cycle().into_iter().collect();
        lines.extend(self.waits.iter().map(|(&thread, wait)| {
            let holders = self.held.get(&wait.on).into_iter().flatten();
            let held: Vec<String> =
                holders.map(|&(holder, place)| format!("held by {} since {place}", self.name(holder))).collect();
            let held = if held.is_empty() { String::new() } else { format!(", {}", held.join(", ")) };
            format!("{} waits at {} for {}{held}", self.name(thread), wait.place, wait.what)
        }));
        lines.iter().map(|line| format!("\n  {line}")).collect()
    }

    fn cycle(&self) -> Option<String> {
        let next = |thread: usize| {
            let wait = self.waits.get(&thread)?;
            self.held.get(&wait.on)?.iter().map(|&(holder, _)| holder).find(|holder| self.waits.contains_key(holder))
        };
        self.waits.keys().find_map(|&first| {
            let mut way = vec![first];
            while let Some(thread) = next(*way.last()?) {
                if thread == first {
                    let names: Vec<String> = way.iter().chain([&first]).map(|&thread| self.name(thread)).collect();
                    return Some(format!("waits-for cycle: {}", names.join(" -> ")));
                }
                if way.contains(&thread) {
                    return None; // a cycle that another thread begins
                }
                way.push(thread);
            }
            None
        })
    }
}

/// Delays of threads at some places of the source, so that the other threads do much between two steps of theirs.
///
/// A uniform choice seldom finds a race whose two steps are neighbours: no other thread comes to the same place in between.
/// So every other schedule, by chance, has slow places: a thread that comes there waits, often, while the others do
/// thousands of steps.
#[derive(Default)]
struct Delays {
    /// Identifies the places that are slow; 0: none are.
    salt: u64,
    /// By address of the place: whether it is slow, and the number of visits.
    visits: HashMap<usize, (bool, u32)>,
    /// By thread: the step at which it goes on.
    until: BTreeMap<usize, usize>,
}

/// One place in so many is slow.
const SLOW_SHARE: u64 = 4;

/// Visits of a slow place that may delay a thread. Later ones do not: schedules would get long, and a place that is visited
/// so often is met by a uniform choice, too.
const VISITS_MAX: u32 = 8;

/// The longest delay, in steps.
const DELAY_MAX: usize = 4_000;

impl Delays {
    fn new(chance: &mut Chance) -> Delays {
        let salt = chance.next();
        Delays { salt: if salt & 1 == 0 { 0 } else { salt }, ..Delays::default() }
    }

    /// Notes that a thread has come to `place`.
    fn visit(&mut self, thread: usize, place: Place, now: usize, chance: &mut Chance) {
        if self.salt == 0 {
            return;
        }
        let salt = self.salt;
        let (is_slow, visits) = self.visits.entry(std::ptr::from_ref(place).addr()).or_insert_with(|| {
            // Of its text, not of its address, which is another one in each process.
            let numbers = [u64::from(place.line()), u64::from(place.column())];
            let text = place.file().bytes().map(u64::from).chain(numbers);
            let mixed = text.fold(salt, |mixed, number| Chance(mixed ^ number).next());
            (mixed.is_multiple_of(SLOW_SHARE), 0)
        });
        *visits += 1;
        if *is_slow && *visits <= VISITS_MAX && chance.index(2) == 0 {
            self.until.insert(thread, now + 1 + chance.index(DELAY_MAX));
        }
    }

    /// Chooses among the threads that are not delayed; if all are, among all, and ends the delay of the chosen one.
    fn choose(&mut self, runnable: &[&Task], now: usize, chance: &mut Chance) -> TaskId {
        self.until.retain(|_, until| *until > now);
        let free: Vec<TaskId> =
            runnable.iter().map(|task| task.id()).filter(|&id| !self.until.contains_key(&id.into())).collect();
        if !free.is_empty() {
            return free[chance.index(free.len())];
        }
        let chosen = runnable[chance.index(runnable.len())].id();
        self.until.remove(&chosen.into());
        chosen
    }
}

/// Random choice of the next thread, within limits.
struct Limited {
    chance: Chance,
    delays: Delays,
    /// Schedules that remain.
    left: usize,
    limits: Limits,
    run: Arc<Run>,
    began: Instant,
    steps: usize,
    /// The limit that was exceeded.
    exceeded: Arc<Mutex<Option<String>>>,
}

/// Steps between two looks at the clock.
const LOOK_EVERY: usize = 1 << 10;

impl Scheduler for Limited {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.left = self.left.checked_sub(1)?;
        (self.began, self.steps, self.delays) = (Instant::now(), 0, Delays::new(&mut self.chance));
        Some(Schedule::new(self.chance.0))
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, _: bool) -> Option<TaskId> {
        self.steps += 1;
        self.run.steps.fetch_add(1, Ordering::Relaxed);
        let Limits { steps_max, time_max } = self.limits;
        let exceeded = match () {
            () if self.steps > steps_max => Some(format!("more than {steps_max} steps")),
            () if self.steps.is_multiple_of(LOOK_EVERY) && self.began.elapsed() > time_max => {
                Some(format!("more than {time_max:?}"))
            }
            () => None,
        };
        if let Some(exceeded) = exceeded {
            *self.exceeded.lock() = Some(exceeded);
            // An error of the scheduler: the run ends, and no destructor of its threads runs.
            resume_unwind(Box::new("limit exceeded"));
        }
        if let (Some(current), Some(place)) = (current, PLACE.take()) {
            self.delays.visit(current.into(), place, self.steps, &mut self.chance);
        }
        Some(self.delays.choose(runnable, self.steps, &mut self.chance))
    }

    fn next_u64(&mut self) -> u64 {
        self.chance.next()
    }
}

/// Shortest time without a step after which a run counts as blocked. A loaded machine, or a virtual one that is paused, may give the
/// process no turn for seconds.
const STALL_TIME_MIN: Duration = Duration::from_secs(10);

/// Ends the process if a run makes no step for as long as its time limit, and at least [`STALL_TIME_MIN`]: one of its threads then
/// blocks the others, because it waits for a lock that the scheduler does not know.
struct Watchdog(Option<(Sender<()>, std::thread::JoinHandle<()>)>);

impl Watchdog {
    fn start(run: &Arc<Run>, time_max: Duration) -> Watchdog {
        let (sender, receiver) = channel();
        let run = Arc::clone(run);
        let stall_time = time_max.max(STALL_TIME_MIN);
        let watch = move || {
            let mut seen = u64::MAX;
            while receiver.recv_timeout(stall_time) == Err(RecvTimeoutError::Timeout) {
                let steps = run.steps.load(Ordering::Relaxed);
                if steps == seen {
                    // Not by `eprintln`, which a test harness captures: an abort loses what it has captured.
                    let _ = writeln!(
                        std::io::stderr(),
                        "a scheduled run made no step for {stall_time:?}: a thread computes without end, or waits for a lock that \
                         the scheduler does not know (use those of cedrat::check::sync); the process ends{}",
                        run.state.lock().describe()
                    );
                    std::process::abort();
                }
                seen = steps;
            }
        };
        // Without a watchdog the run is the same.
        let thread = std::thread::Builder::new().name("cedrat-watchdog".into()).spawn(watch);
        Watchdog(thread.ok().map(|thread| (sender, thread)))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.0.take() {
            drop(sender);
            let _ = thread.join(); // it cannot panic
        }
    }
}

/// Resets the state of this thread of the system at the end of a run.
struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        SCHEDULED.set(false);
        RUN.set(None);
    }
}

/// Lets the scheduler's library set its panic hook, which reports each panic of the process, and restores the one before.
fn keep_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        shuttle::Runner::new(RandomScheduler::new_from_seed(0, 1), config()).run(|| {});
        std::panic::set_hook(before);
    });
}

fn config() -> shuttle::Config {
    let mut config = shuttle::Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = shuttle::MaxSteps::None; // `Limited` counts them
    config.failure_persistence = shuttle::FailurePersistence::None; // the seed repeats it
    config
}

/// Runs `body` `schedules` times, each time with other interleavings, all of them determined by `seed`.
///
/// # Panics
/// If `body` panics in one of its threads.
fn search(seed: u64, schedules: usize, limits: Limits, body: impl Fn() + Send + Sync + 'static) -> Result<(), Hang> {
    keep_panic_hook();
    let run = Arc::new(Run { state: Mutex::default(), steps: AtomicU64::new(0) });
    let exceeded = Arc::new(Mutex::new(None));
    let scheduler = Limited {
        chance: Chance(seed),
        delays: Delays::default(),
        left: schedules,
        limits,
        run: Arc::clone(&run),
        began: Instant::now(),
        steps: 0,
        exceeded: Arc::clone(&exceeded),
    };
    let _watchdog = Watchdog::start(&run, limits.time_max);
    RUN.set(Some(Arc::clone(&run)));
    let running = Running;
    let body = move || {
        SCHEDULED.set(true);
        with(|state| *state = State { chance: Chance(seed), ..State::default() });
        body();
    };
    let ended = catch_unwind(AssertUnwindSafe(|| shuttle::Runner::new(scheduler, config()).run(body)));
    drop(running);
    let Err(panic) = ended else { return Ok(()) };
    let state = run.state.lock();
    if let Some(exceeded) = exceeded.lock().take() {
        return Err(Hang(format!("the schedule of seed {seed} took {exceeded}{}", state.describe())));
    }
    match panic.downcast_ref::<String>() {
        Some(words) if words.starts_with("deadlock!") => {
            Err(Hang(format!("deadlock in the schedule of seed {seed}: every thread waits{}", state.describe())))
        }
        _ => resume_unwind(panic),
    }
}

/// Runs `body` `schedules` times, each time with other interleavings, all of them determined by `seed` and by the environment
/// variable `CEDRAT_SEED`; within a scheduled run, once as a part of that run.
///
/// # Panics
/// If a schedule hangs, or `body` panics.
pub fn explore(seed: u64, schedules: usize, body: impl Fn() + Send + Sync + 'static) {
    if is_scheduled() {
        return body();
    }
    search(first_seed(seed), schedules, EXPLORED, body).unwrap_or_else(|hang| panic!("{hang}"));
}

/// Runs `body` once, with the interleaving of its threads that `seed` determines.
///
/// Within a scheduled run it is a part of that run.
///
/// # Errors
/// A deadlock, or a limit that was exceeded. What the threads hold stays locked, and their stacks are leaked.
///
/// # Panics
/// If `body` panics in one of its threads.
pub fn schedule<T: Send + 'static>(
    seed: u64,
    limits: Limits,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Hang> {
    if is_scheduled() {
        return Ok(body());
    }
    let (body, result) = (Mutex::new(Some(body)), Arc::new(Mutex::new(None)));
    let to = Arc::clone(&result);
    search(seed, 1, limits, move || {
        let body = body.lock().take().expect("one schedule");
        let value = body();
        *to.lock() = Some(value);
    })?;
    let value = result.lock().take();
    Ok(value.expect("the body has ended"))
}
