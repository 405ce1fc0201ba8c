//! One figure per module: Cedrat beside its peers and the bare ceilings, in one run.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use job::{Job, Scratch};
use report::{Params, Report};
use systems::Result;

mod backup;
mod ceiling;
mod commit;
mod disk;
mod encryption;
mod heap;
mod job;
mod keys;
mod large;
mod load;
mod locks;
mod objects;
mod opening;
mod plot;
mod random;
mod raw_words;
mod reads;
mod rebuild;
mod recovery;
mod report;
mod systems;
mod traversal;

/// A figure: its name, a line about it, and the function that measures it.
struct Figure {
    name: &'static str,
    about: &'static str,
    measure: fn(&Settings, &mut Scratch) -> Result<Report>,
}

const FIGURES: [Figure; 19] = [
    Figure {
        name: "commit",
        about: "durable transactions per second, one insert each, by threads (Lemon, Figure 4)",
        measure: commit::figure,
    },
    Figure {
        name: "load",
        about: "a million random pairs in one transaction, then random gets (Lemon, Figure 3)",
        measure: load::figure,
    },
    Figure {
        name: "recovery",
        about: "the log of `load` replayed over a cold page file, from the kill to the first answered get",
        measure: recovery::figure,
    },
    Figure {
        name: "opening",
        about: "the first answer of a killed store of 10 GB of pages, a heap of 4 GiB and 1 GB of log",
        measure: opening::figure,
    },
    Figure {
        name: "object-cache",
        about: "updates of objects in a cache of twice the hot set, by what changes of one (Lemon, Figure 5)",
        measure: objects::figure,
    },
    Figure {
        name: "traversal",
        about: "graphs larger than the pool, depth first and with reordered visits (Lemon, Figures 7 and 8)",
        measure: traversal::figure,
    },
    Figure {
        name: "requests",
        about: "random updates of an array ten times as large as the pool, one at a time and reordered",
        measure: traversal::requests,
    },
    Figure {
        name: "locks",
        about: "hand-over of a contended lock by threads, an unrelated lock meanwhile, a lock with many holders",
        measure: locks::figure,
    },
    Figure {
        name: "read-only",
        about: "transactions that only read and commit durably, alone and beside a thread that writes elsewhere",
        measure: reads::figure,
    },
    Figure {
        name: "encryption",
        about: "loads and durable commits of an encrypted store, beside those of a plain one",
        measure: encryption::figure,
    },
    Figure {
        name: "archive",
        about: "durable commits of 8 and of 50 threads, with an archive and without",
        measure: backup::archive,
    },
    Figure {
        name: "backup",
        about: "durable commits and their 99.9th percentile, while backups run and without",
        measure: backup::backup,
    },
    Figure {
        name: "restore",
        about: "a backup, a restore, and one to a point with an archive, beside `cp` of the same files",
        measure: backup::restore,
    },
    Figure {
        name: "rebuild",
        about: "a read of a page that is damaged on the disk, with an archive of 10 GB",
        measure: rebuild::figure,
    },
    Figure {
        name: "heap-words",
        about: "transactions of six random words in a large heap, by threads and log (Hathi, Figure 3(a))",
        measure: heap::words::figure,
    },
    Figure {
        name: "heap-large",
        about: "transactions of 64 random words by four and by eight threads (Hathi §5)",
        measure: heap::words::large,
    },
    Figure {
        name: "heap-sync",
        about: "small durable heap transactions by threads and commit mode, and mixed (Hathi, Figure 3(b))",
        measure: heap::sync::figure,
    },
    Figure {
        name: "heap-vacation",
        about: "clients of a travel agency in a heap, after STAMP's vacation, by threads and log",
        measure: heap::vacation::figure,
    },
    Figure {
        name: "heap-choices",
        about: "what the choices of transactional memory cost or gain, nothing logged",
        measure: heap::choices::figure,
    },
];

/// Measures Cedrat beside its peers and the bare ceilings.
#[derive(Parser)]
#[command(name = "bench", args_conflicts_with_subcommands = true)]
struct Arguments {
    /// Figures to measure; all when none is named. `--list` names them.
    names: Vec<String>,
    /// Short points: to see that all works, not to be quoted.
    #[arg(long)]
    quick: bool,
    /// One JSON object a line on stdout, and nothing else there.
    #[arg(long)]
    json: bool,
    /// Only points with this parameter, where they have it; for the figures of heaps. May be given more than once.
    #[arg(long, value_name = "NAME=VALUE")]
    only: Vec<String>,
    /// Seconds of a point, instead of each figure's own; for the figures of heaps.
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Size of the store that is copied; for the figures of backups.
    #[arg(long, value_name = "N")]
    bytes: Option<u64>,
    /// Names the figures and ends.
    #[arg(long)]
    list: bool,
    #[command(subcommand)]
    command: Option<Mode>,
}

#[derive(Subcommand)]
enum Mode {
    /// Draws the JSON lines of a run as SVG files.
    Plot {
        /// A file of JSON lines, as `--json` prints them.
        lines: PathBuf,
        /// Directory of the drawings.
        #[arg(long, default_value = "docs/plots")]
        out: PathBuf,
    },
    /// One measurement in a process of its own; the program starts itself so.
    #[command(hide = true)]
    Child { dir: PathBuf, job: String },
}

/// Settings of the measurements.
struct Settings {
    quick: bool,
    seconds: Option<f64>,
    bytes: Option<u64>,
    /// Names and values of parameters.
    only: Vec<(String, String)>,
}

impl Settings {
    fn of(arguments: &Arguments) -> Result<Settings> {
        let split = |only: &String| {
            let halves = only.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
            halves.ok_or_else(|| format!("--only {only}: it should be NAME=VALUE"))
        };
        let only = arguments.only.iter().map(split).collect::<std::result::Result<_, _>>()?;
        Ok(Settings { quick: arguments.quick, seconds: arguments.seconds, bytes: arguments.bytes, only })
    }

    /// Returns the duration of a point.
    fn seconds(&self, long: f64, quick: f64) -> f64 {
        self.seconds.unwrap_or(if self.quick { quick } else { long })
    }

    /// Returns the duration of the trials that select the configurations to measure.
    fn probe_seconds(&self) -> f64 {
        if self.quick { 0.2 } else { 0.4 }
    }

    fn repetitions(&self) -> u32 {
        if self.quick { 1 } else { 3 }
    }

    /// Returns whether a point with these parameters was requested.
    fn wants(&self, params: &Params) -> bool {
        let fits = |only: &(String, String)| params.get(&only.0).is_none_or(|value| report::plain(value) == only.1);
        self.only.iter().all(fits)
    }

    /// Reports progress on stderr.
    fn tell(&self, what: &str) {
        eprintln!("{what}");
    }
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    match arguments.command {
        Some(Mode::Child { dir, job }) => {
            let job: Job = serde_json::from_str(&job)?;
            println!("{}", serde_json::to_string(&job::perform(&dir, job)?)?);
            return Ok(());
        }
        Some(Mode::Plot { lines, out }) => {
            let text = std::fs::read_to_string(&lines).map_err(|error| format!("{}: {error}", lines.display()))?;
            for file in plot::draw(&text, &out)? {
                println!("{}", file.display());
            }
            return Ok(());
        }
        None => {}
    }
    if arguments.list {
        for figure in &FIGURES {
            println!("{:14} {}", figure.name, figure.about);
        }
        return Ok(());
    }
    let mut figures = Vec::new();
    for name in &arguments.names {
        let figure = FIGURES.iter().find(|figure| figure.name == name);
        figures.push(figure.ok_or_else(|| format!("no figure is called {name}; --list names them"))?);
    }
    if figures.is_empty() {
        figures.extend(&FIGURES);
    }
    let settings = Settings::of(&arguments)?;
    let mut scratch = Scratch::open()?;
    for figure in figures {
        let report = (figure.measure)(&settings, &mut scratch)?;
        let mut out = std::io::stdout().lock();
        if arguments.json {
            for point in &report.points {
                writeln!(out, "{}", serde_json::to_string(point)?)?;
            }
            for goal in &report.goals {
                eprintln!("{goal}");
            }
            for note in &report.notes {
                eprintln!("note: {note}");
            }
        } else {
            writeln!(out, "{}\n{}", figure.name, report.to_text())?;
        }
    }
    Ok(())
}
