//! Drawings of a run: JSON lines in, SVG files out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::report::{Point, grouped};
use crate::systems::Result;

mod heap;
mod objects;
mod oracle;

const SIZE: (u32, u32) = (760, 460);

/// Returns the colour of a system, the same in every drawing.
fn colour(system: &str) -> RGBColor {
    match system {
        "cedrat" => RGBColor(0xC8, 0x1E, 0x3A),
        "bdb-hash" => RGBColor(0x1F, 0x6F, 0xB4),
        "bdb-btree" => RGBColor(0x5A, 0xA9, 0xE0),
        "lmdb" => RGBColor(0x3A, 0x8F, 0x4D),
        "ceiling" => RGBColor(0x55, 0x55, 0x55),
        other => objects::colour(other).unwrap_or_else(|| heap::colour(other)),
    }
}

/// Draws the points of `lines` into `dir` and returns the files.
pub(crate) fn draw(lines: &str, dir: &Path) -> Result<Vec<PathBuf>> {
    let points: Vec<Point> = lines.lines().map(serde_json::from_str).collect::<serde_json::Result<_>>()?;
    std::fs::create_dir_all(dir)?;
    let mut files = Vec::new();

    let commits = commit_lines(&points);
    let mut drawings = vec![Drawing {
        name: "commit",
        title: "Durable commits per second, one insert each".into(),
        lines: commits,
        x: THREADS,
        marks: Vec::new(),
    }];
    drawings.extend(heap::drawings(&points));
    drawings.extend(objects::drawings(&points));
    for drawing in drawings.iter().filter(|drawing| !drawing.lines.is_empty()) {
        let file = dir.join(format!("{}.svg", drawing.name));
        let area = SVGBackend::new(&file, SIZE).into_drawing_area();
        draw_lines(&area, drawing).map_err(|error| error.to_string())?;
        drop(area);
        files.push(file);
    }
    let curves = oracle::curves(&points);
    if !curves.is_empty() {
        let file = dir.join("oracle.svg");
        let area = SVGBackend::new(&file, SIZE).into_drawing_area();
        oracle::draw(&area, &curves).map_err(|error| error.to_string())?;
        drop(area);
        files.push(file);
    }
    let mut bars_of = vec![("heap-mix", heap::MIX_TITLE, heap::mix(&points))];
    for (name, title, metric, threads) in [
        ("load-inserts", "One transaction of random inserts: inserts/s", "inserts_per_s", 1),
        ("load-gets-1", "Random gets, one thread: gets/s", "gets_per_s", 1),
        ("load-gets-2", "Random gets, two threads: gets/s", "gets_per_s", 2),
    ] {
        let bars: Vec<(String, f64)> = points
            .iter()
            .filter(|point| point.bench == "load" && point.metric == metric && point.system != "ceiling")
            .filter(|point| point.params.get("threads") == Some(&threads.into()))
            .map(|point| (point.system.clone(), point.value))
            .collect();
        bars_of.push((name, title, bars));
    }
    for (name, title, bars) in bars_of.iter().filter(|(.., bars)| !bars.is_empty()) {
        let file = dir.join(format!("{name}.svg"));
        let area = SVGBackend::new(&file, (SIZE.0, 40 + 44 * bars.len() as u32)).into_drawing_area();
        draw_bars(&area, title, bars).map_err(|error| error.to_string())?;
        drop(area);
        files.push(file);
    }
    Ok(files)
}

/// Values by threads, or by another parameter, for each system or configuration.
type Lines = BTreeMap<String, Vec<(u64, f64)>>;

/// Parameter that most figures vary.
const THREADS: &str = "threads";

/// Lines by the varied parameter.
struct Drawing {
    name: &'static str,
    title: String,
    lines: Lines,
    /// The varied parameter.
    x: &'static str,
    /// Single published values: x, value, source.
    marks: Vec<(u64, f64, &'static str)>,
}

/// Returns commits per second by threads, for each system, with one outstanding commit per thread.
fn commit_lines(points: &[Point]) -> Lines {
    let mut lines = Lines::new();
    for point in points.iter().filter(|point| point.bench == "commit" && point.metric == "commits_per_s") {
        let number = |name: &str| point.params.get(name).and_then(serde_json::Value::as_u64);
        if let (Some(threads), Some(1)) = (number("threads"), number("outstanding")) {
            lines.entry(point.system.clone()).or_default().push((threads, point.value));
        }
    }
    lines.retain(|system, line| line.len() > 1 && system != "unordered-writes");
    lines.values_mut().for_each(|line| line.sort_by_key(|&(threads, _)| threads));
    lines
}

type Drawn<B> = std::result::Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

fn draw_lines<B: DrawingBackend>(area: &DrawingArea<B, Shift>, drawing: &Drawing) -> Drawn<B> {
    let Drawing { title, lines, x, marks, .. } = drawing;
    area.fill(&WHITE)?;
    let mut places: Vec<u64> = lines.values().flatten().map(|&(at, _)| at).collect();
    places.sort_unstable();
    places.dedup();
    let values = || lines.values().flatten().map(|&(_, value)| value).chain(marks.iter().map(|mark| mark.1));
    let (low, high) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
    // Equidistant, as they were chosen.
    let place = |of: u64| places.iter().position(|&at| at == of).unwrap_or(0) as f64;
    let last = places.len() as f64 - 1.0;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .margin_right(if lines.keys().any(|name| name.len() > 12) { 180 } else { 110 })
        .x_label_area_size(44)
        .y_label_area_size(76)
        .build_cartesian_2d(-0.1..last + 0.1, (low * 0.8..high * 1.25).log_scale())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(places.len())
        .x_label_formatter(&|at| {
            let whole = (at - at.round()).abs() < 0.05;
            let place = places.get(at.round().max(0.0) as usize).filter(|_| whole);
            place.map_or(String::new(), u64::to_string)
        })
        .y_label_formatter(&|value| grouped(*value))
        .x_desc(*x)
        .light_line_style(WHITE)
        .draw()?;
    let mut labels = Vec::new();
    for (system, line) in lines {
        let colour = colour(system);
        let width = if system == "cedrat" { 3 } else { 2 };
        let at: Vec<(f64, f64)> = line.iter().map(|&(at, value)| (place(at), value)).collect();
        chart.draw_series(LineSeries::new(at.iter().copied(), colour.stroke_width(width)))?;
        chart.draw_series(at.iter().map(|&at| Circle::new(at, 3, colour.filled())))?;
        labels.extend(at.last().map(|end| (chart.backend_coord(end), system.as_str(), colour)));
    }
    for &(at, value, whose) in marks.iter().filter(|mark| mark.0 <= places.last().copied().unwrap_or(0)) {
        let at = (place(at), value);
        chart.draw_series([TriangleMarker::new(at, 6, colour(whose).filled())])?;
        labels.push((chart.backend_coord(&at), whose, colour(whose)));
    }
    // From top to bottom, each far enough below the previous one to be readable.
    labels.sort_by_key(|&((_, y), ..)| y);
    let mut below = i32::MIN;
    for ((x, y), system, colour) in labels {
        let y = (y - 7).max(below);
        let style = ("sans-serif", 13).into_font().color(&colour);
        area.draw(&Text::new(system.to_owned(), (x + 8, y), style))?;
        below = y + 15;
    }
    area.present()
}

fn draw_bars<B: DrawingBackend>(area: &DrawingArea<B, Shift>, title: &str, bars: &[(String, f64)]) -> Drawn<B> {
    area.fill(&WHITE)?;
    area.draw(&Text::new(title.to_owned(), (12, 10), ("sans-serif", 18).into_font()))?;
    let high = bars.iter().map(|&(_, value)| value).fold(f64::MIN_POSITIVE, f64::max);
    let left = if bars.iter().any(|(name, _)| name.len() > 12) { 200 } else { 110 };
    let room = SIZE.0 as i32 - left - 110;
    for ((system, value), row) in bars.iter().zip(0..) {
        let top = 44 + row * 44;
        let right = left + (f64::from(room) * value / high) as i32;
        area.draw(&Rectangle::new([(left, top), (right, top + 28)], colour(system).filled()))?;
        area.draw(&Text::new(system.clone(), (12, top + 7), ("sans-serif", 14).into_font()))?;
        area.draw(&Text::new(grouped(*value), (right + 6, top + 7), ("sans-serif", 14).into_font()))?;
    }
    area.present()
}
