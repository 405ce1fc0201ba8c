//! Drawings of the figures of heaps (Hathi, Figure 3).

use plotters::style::RGBColor;
use serde_json::Value;

use super::{Drawing, Lines, THREADS};
use crate::report::{Point, plain};

/// The only published value of Figure 3(a) that its text states.
const HATHI: (u64, f64, &str) = (8, 1.25e6, "Hathi, 2011");

pub(super) const MIX_TITLE: &str = "Travel agency, two threads: throughput as a part of that of `async`";

/// Figure 3(b), as its text states it, except that the values of 1 in 100 sync and 1 in 100 partition are exchanged: the
/// text gives them the other way round, but calls partition the faster by a quarter.
const HATHI_MIX: [(&str, f64); 4] = [
    ("Hathi: sync", 0.13),
    ("Hathi: 1 in 100 sync", 0.4),
    ("Hathi: 1 in 100 partition", 0.5),
    ("Hathi: 1 in 1000 sync", 0.97),
];

/// Returns the colour of a configuration.
pub(super) fn colour(name: &str) -> RGBColor {
    match name {
        "async-n" | "sync" => RGBColor(0xC8, 0x1E, 0x3A),
        "async-n, batches" | "partition" => RGBColor(0xE8, 0x7A, 0x1E),
        "async-1" | "token" => RGBColor(0x1F, 0x6F, 0xB4),
        "async-1, batches" | "mixed-sync, 1 in 100" => RGBColor(0x5A, 0xA9, 0xE0),
        "none" | "async" => RGBColor(0x3A, 0x8F, 0x4D),
        "none, batches" | "mixed-partition, 1 in 100" => RGBColor(0x86, 0xC2, 0x94),
        "mixed-sync, 1 in 1000" => RGBColor(0x7A, 0x4F, 0xA3),
        "mixed-partition, 1 in 1000" => RGBColor(0xB0, 0x8F, 0xC8),
        "Hathi, 2011" => RGBColor(0x00, 0x00, 0x00),
        _ => RGBColor(0xB0, 0xB0, 0xB0),
    }
}

/// Returns all line drawings.
pub(super) fn drawings(points: &[Point]) -> Vec<Drawing> {
    let title = |of: &str| format!("Transactions per second, {of}");
    let mut drawings = vec![
        Drawing {
            name: "heap-words",
            title: title("six random words each"),
            lines: words(points),
            x: THREADS,
            marks: vec![HATHI],
        },
        Drawing {
            name: "heap-sync",
            title: title("one word each"),
            lines: sync(points),
            x: THREADS,
            marks: Vec::new(),
        },
    ];
    for (name, contention) in [("heap-vacation-low", "low"), ("heap-vacation-high", "high")] {
        let title = title(&format!("travel agency, {contention} contention"));
        drawings.push(Drawing { name, title, lines: vacation(points, contention), x: THREADS, marks: Vec::new() });
    }
    drawings
}

/// Returns the points of a figure that contain transactions per second.
fn rates<'a>(points: &'a [Point], bench: &'a str) -> impl Iterator<Item = &'a Point> {
    points.iter().filter(move |point| point.bench == bench && point.metric == "txn_per_s")
}

fn text(point: &Point, name: &str) -> String {
    point.params.get(name).map(plain).unwrap_or_default()
}

fn number(point: &Point, name: &str) -> u64 {
    point.params.get(name).and_then(Value::as_u64).unwrap_or(0)
}

/// Adds a value to a line; of two with equal thread counts the better one stays.
fn add(lines: &mut Lines, line: String, point: &Point) {
    let (line, threads) = (lines.entry(line).or_default(), number(point, "threads"));
    match line.iter_mut().find(|(known, _)| *known == threads) {
        Some((_, value)) => *value = value.max(point.value),
        None => line.push((threads, point.value)),
    }
    line.sort_by_key(|&(threads, _)| threads);
}

/// Returns the lines of the largest heap, without checkpoints.
fn words(points: &[Point]) -> Lines {
    let largest = rates(points, "heap-words").map(|point| number(point, "heap_bytes")).max();
    let mut lines = Lines::new();
    for point in rates(points, "heap-words").filter(|point| Some(number(point, "heap_bytes")) == largest) {
        match (text(point, "log").as_str(), number(point, "batch")) {
            _ if point.system == "ceiling" => add(&mut lines, point.system.clone(), point),
            _ if text(point, "checkpoints") == "on" => {}
            (log, 1) => add(&mut lines, log.to_owned(), point),
            (log, _) => add(&mut lines, format!("{log}, batches"), point),
        }
    }
    lines
}

/// Returns the lines for words that belong to one thread each, with the better number of partitions.
fn sync(points: &[Point]) -> Lines {
    let mut lines = Lines::new();
    for point in rates(points, "heap-sync") {
        match text(point, "words").as_str() {
            "own" => add(&mut lines, mode(point), point),
            _ if point.system == "ceiling" => add(&mut lines, point.system.clone(), point),
            _ => {}
        }
    }
    lines
}

fn mode(point: &Point) -> String {
    match number(point, "sync_one_in") {
        0 => text(point, "mode"),
        one_in => format!("{}, 1 in {one_in}", text(point, "mode")),
    }
}

fn vacation(points: &[Point], contention: &str) -> Lines {
    let mut lines = Lines::new();
    for point in rates(points, "heap-vacation").filter(|point| text(point, "contention") == contention) {
        add(&mut lines, text(point, "log"), point);
    }
    lines
}

/// Returns the bars of the mixed commit modes, beside those of the paper.
pub(super) fn mix(points: &[Point]) -> Vec<(String, f64)> {
    let of_agency = || rates(points, "heap-sync").filter(|point| text(point, "workload") == "vacation");
    let Some(all) = of_agency().find(|point| text(point, "mode") == "async").map(|point| point.value) else {
        return Vec::new();
    };
    let measured = of_agency().map(|point| (mode(point), point.value / all));
    measured.chain(HATHI_MIX.map(|(name, value)| (name.to_owned(), value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::params;

    fn point(bench: &str, system: &str, params: crate::report::Params, value: f64) -> Point {
        Point::new(bench, system, params, "txn_per_s", value, "1/s")
    }

    #[test]
    fn lines_show_largest_heap_and_best_way() {
        let heap = |bytes: u64, threads: u32, value| {
            let params =
                params! {"heap_bytes": bytes, "threads": threads, "log": "none", "batch": 1, "checkpoints": "off"};
            point("heap-words", "cedrat", params, value)
        };
        let drawn = words(&[heap(64, 1, 9.0), heap(4096, 2, 3.0), heap(4096, 1, 2.0)]);
        assert_eq!(drawn["none"], [(1, 2.0), (2, 3.0)]);
        let one_word = |partitions: u16, value| {
            let params = params! {"threads": 2, "mode": "sync", "words": "own", "partitions": partitions};
            point("heap-sync", "cedrat", params, value)
        };
        assert_eq!(sync(&[one_word(1, 5.0), one_word(2, 4.0)])["sync"], [(2, 5.0)]);
    }

    #[test]
    fn mixes_are_parts_of_asynchronous_throughput() {
        let of = |mode: &str, value| {
            point("heap-sync", "cedrat", params! {"workload": "vacation", "mode": mode, "threads": 2}, value)
        };
        let bars = mix(&[of("async", 8.0), of("sync", 2.0)]);
        assert_eq!(bars[..2], [("async".to_owned(), 1.0), ("sync".to_owned(), 0.25)]);
        assert!(mix(&[of("sync", 2.0)]).is_empty());
    }
}
