//! Latency by throughput of the status oracle and of the systems compared with it (ReTSO, Figure 3).

use std::collections::BTreeMap;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::Drawn;
use crate::report::{Point, grouped, plain};

/// Concurrent transactions of one client, as in the paper.
const OUTSTANDING: u64 = 100;

/// For each system and configuration: transactions per second and the mean microseconds of a commit, by clients.
pub(super) type Curves = BTreeMap<String, Vec<(f64, f64)>>;

/// Values that the paper states for its own Figure 3, with 16 clients: with its log, on ten machines.
const PAPER: (f64, f64) = (72_500.0, 14_400.0);

fn colour(name: &str) -> RGBColor {
    match name {
        "cedrat, no log" => RGBColor(0xE8, 0x8A, 0x9A),
        "cedrat, embedded log" => RGBColor(0xC8, 0x1E, 0x3A),
        "cedrat, BookKeeper" => RGBColor(0x7A, 0x10, 0x50),
        "echo" => RGBColor(0xA0, 0xA0, 0xA0),
        "echo, synced block" => RGBColor(0x55, 0x55, 0x55),
        "paper" => RGBColor(0x3A, 0x8F, 0x4D),
        _ if name.ends_with("default") => RGBColor(0x8A, 0xB8, 0xDC),
        _ => RGBColor(0x1F, 0x6F, 0xB4),
    }
}

/// Returns the name of a line; `None` for points that are not drawn.
fn name(point: &Point) -> Option<String> {
    let param = |name: &str| point.params.get(name).map(plain).unwrap_or_default();
    Some(match (point.system.as_str(), param("log").as_str()) {
        ("cedrat", "none") => "cedrat, no log".into(),
        ("cedrat", "embedded") => "cedrat, embedded log".into(),
        ("cedrat", "bookkeeper") => "cedrat, BookKeeper".into(),
        ("echo", "block") => "echo, synced block".into(),
        ("echo", _) => "echo".into(),
        ("omid-null", _) => format!("omid, no log, {}", param("batch")),
        ("omid-hbase", _) => format!("omid, HBase, {}", param("batch")),
        _ => return None,
    })
}

pub(super) fn curves(points: &[Point]) -> Curves {
    let mut curves = BTreeMap::<String, BTreeMap<u64, (f64, f64)>>::new();
    for point in points.iter().filter(|point| point.bench == "oracle" && !point.params.contains_key("per_second")) {
        let number = |name: &str| point.params.get(name).and_then(serde_json::Value::as_u64);
        let (Some(clients), Some(OUTSTANDING), Some(name)) = (number("clients"), number("outstanding"), name(point))
        else {
            continue;
        };
        let at = curves.entry(name).or_default().entry(clients).or_default();
        match point.metric.as_str() {
            "commits_per_s" => at.0 = point.value,
            "mean_us" => at.1 = point.value,
            _ => {}
        }
    }
    curves.into_iter().map(|(name, by_clients)| (name, by_clients.into_values().collect())).collect()
}

pub(super) fn draw<B: DrawingBackend>(area: &DrawingArea<B, Shift>, curves: &Curves) -> Drawn<B> {
    area.fill(&WHITE)?;
    let all = || curves.values().flatten().chain([&PAPER]);
    let range = |of: fn(&(f64, f64)) -> f64| {
        let (low, high) = (all().map(of).fold(f64::MAX, f64::min), all().map(of).fold(0.0, f64::max));
        (low * 0.7..high * 1.4).log_scale()
    };
    let mut chart = ChartBuilder::on(area)
        .caption("Mean latency of a commit by throughput, 1 to 16 clients of 100 transactions", ("sans-serif", 18))
        .margin(12)
        .margin_right(150)
        .x_label_area_size(44)
        .y_label_area_size(76)
        .build_cartesian_2d(range(|at| at.0), range(|at| at.1))?;
    chart
        .configure_mesh()
        .x_label_formatter(&|value| grouped(*value))
        .y_label_formatter(&|value| grouped(*value))
        .x_desc("committed transactions/s")
        .y_desc("µs")
        .light_line_style(WHITE)
        .draw()?;
    let paper = BTreeMap::from([("paper".to_owned(), vec![PAPER])]);
    let mut labels = Vec::new();
    for (name, line) in curves.iter().chain(&paper) {
        let colour = colour(name);
        chart.draw_series(LineSeries::new(line.iter().copied(), colour.stroke_width(2)))?;
        chart.draw_series(line.iter().map(|&at| Circle::new(at, 3, colour.filled())))?;
        labels.extend(line.last().map(|end| (chart.backend_coord(end), name.as_str(), colour)));
    }
    // From top to bottom, each far enough below the previous one to be readable.
    labels.sort_by_key(|&((_, y), ..)| y);
    let mut below = i32::MIN;
    for ((x, y), name, colour) in labels {
        let y = (y - 7).max(below);
        let style = ("sans-serif", 13).into_font().color(&colour);
        area.draw(&Text::new(name.to_owned(), (x + 8, y), style))?;
        below = y + 15;
    }
    area.present()
}
