//! Spans and events of a store, as a layer of `tracing-subscriber` gets them.

use std::sync::{Arc, Mutex};

use cedrat::media::{Call, Fault, Loss, Media, SimDisk};
use cedrat::pages::LayoutKind;
use cedrat::txn::{BackupOptions, FormatFresh, RecordId, ScrubOptions, SetRange};
use cedrat::{Options, Registry, Store};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// A layer that writes a line for each span that begins, `+name`, and each event, `level span: fields`.
#[derive(Clone, Debug, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn add(&self, line: String) {
        self.0.lock().expect("no panic").push(line);
    }

    /// Records what `work` does on this thread.
    fn of<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
        let lines = Lines::default();
        let done = tracing::subscriber::with_default(tracing_subscriber::registry().with(lines.clone()), work);
        let lines = lines.0.lock().expect("no panic").clone();
        (done, lines)
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        self.add(format!("+{}", attributes.metadata().name()));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let span = context.lookup_current().map_or("", |span| span.name());
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        self.add(format!("{} {span}:{}", event.metadata().level(), fields.0));
    }
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!(" {field}={value:?}");
    }
}

fn open(disk: &Arc<dyn Media>) -> Result<Store, cedrat::OpenError> {
    let options = Options { redo_on_demand_bytes: u64::MAX, ..Options::simulated() };
    Store::open(Arc::clone(disk), options, Registry::new())
}

/// Sets the first eight bytes of a page.
fn bytes(value: u8) -> SetRange {
    SetRange { offset: 0, bytes: vec![value; 8].into() }
}

/// Returns the disk of a store whose power failed with one transaction committed and one open, both of one page.
fn crashed() -> Arc<dyn Media> {
    let sim = Arc::new(SimDisk::new());
    let disk: Arc<dyn Media> = Arc::<SimDisk>::clone(&sim);
    let store = open(&disk).expect("it opens");
    let page = store
        .transact(|txn| {
            let page = txn.allocate()?;
            txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::RAW))?;
            Ok(page)
        })
        .expect("it commits");
    let mut open = store.begin();
    open.update(RecordId::page(page), &bytes(9)).expect("it is there");
    store.log().force(store.log().current_lsn()).expect("the disk works");
    Arc::new(sim.journal().crash(sim.journal_len(), Loss::Everything))
}

#[test]
fn recovery_has_its_spans_in_order() {
    let disk = crashed();
    let (store, lines) = Lines::of(|| open(&disk).expect("it opens"));
    let report = store.recovery();
    assert!(report.redone > 0 && report.undone > 0, "{report:?}");
    let lines: Vec<_> = lines.into_iter().filter(|line| !line.starts_with("DEBUG")).collect();
    let expected = [
        "+opening".to_owned(),
        "+analysis".to_owned(),
        format!("INFO analysis: message=log analysed records={} losers=1", report.records),
        "+redo".to_owned(),
        format!("INFO redo: message=history repeated records={} pages={}", report.redone, report.pages),
        "+undo".to_owned(),
        format!("INFO undo: message=losers undone losers=1 records={}", report.undone),
        "+checkpoint".to_owned(),
    ];
    assert_eq!(lines[..expected.len()], expected);
    assert!(lines[expected.len()].starts_with("INFO checkpoint:"), "{lines:?}");
    assert_eq!(lines.len(), expected.len() + 1, "{lines:?}");
}

#[test]
fn progress_of_recovery_is_an_event() {
    let disk = crashed();
    let (_store, lines) = Lines::of(|| open(&disk).expect("it opens"));
    // A log as short as this one is repeated without a report.
    for phase in ["Analysis", "Undo"] {
        let has_phase =
            lines.iter().any(|line| line.starts_with("DEBUG") && line.contains(&format!("progress={phase}")));
        assert!(has_phase, "{phase}: {lines:?}");
    }
}

#[test]
fn copies_and_scrub_have_spans() {
    let disk: Arc<dyn Media> = Arc::new(SimDisk::new());
    let backup: Arc<dyn Media> = Arc::new(SimDisk::new());
    let store = open(&disk).expect("it opens");
    let (_, lines) = Lines::of(|| {
        store.backup(&backup, BackupOptions::default()).expect("it works");
        store.scrub(ScrubOptions::default(), |_| std::ops::ControlFlow::Continue(())).expect("it works");
    });
    let spans: Vec<_> = lines.iter().filter(|line| line.starts_with('+')).collect();
    assert_eq!(spans, ["+backup", "+checkpoint", "+scrub"], "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("INFO backup: message=backup completed up_to=")), "{lines:?}");
}

#[test]
fn stopped_log_and_refusal_are_events() {
    let sim = Arc::new(SimDisk::new());
    let disk: Arc<dyn Media> = Arc::<SimDisk>::clone(&sim);
    let store = open(&disk).expect("it opens");
    sim.inject(Fault::error(Call::Any, std::io::ErrorKind::Other).of("log/"));
    let (_, lines) = Lines::of(|| {
        store.transact(|txn| txn.allocate()).expect_err("the disk fails");
        open(&disk).expect_err("it is in use");
    });
    let errors: Vec<_> = lines.iter().filter(|line| line.starts_with("ERROR")).collect();
    assert!(errors.len() == 2 && errors[0].contains("message=the log stopped"), "{lines:?}");
    assert!(errors[1].starts_with("ERROR opening: message=the opening was refused"), "{lines:?}");
}
