//! Drawings of the figures of objects (Lemon, Figure 5).

use plotters::style::RGBColor;
use serde_json::Value;

use super::{Drawing, Lines};
use crate::report::{Point, plain};

/// Returns the colour of an object store configuration, if the name is one.
pub(super) fn colour(name: &str) -> Option<RGBColor> {
    Some(match name {
        "delta" => RGBColor(0xC8, 0x1E, 0x3A),
        "update-flush" => RGBColor(0xE8, 0x7A, 0x1E),
        "plain" => RGBColor(0x7A, 0x4F, 0xA3),
        "bdb-hash partial" | "bdb-hash partial-uncached" => RGBColor(0x1F, 0x6F, 0xB4),
        "bdb-hash full" => RGBColor(0x0B, 0x3C, 0x66),
        "bdb-btree partial" | "bdb-btree partial-uncached" => RGBColor(0x5A, 0xA9, 0xE0),
        "bdb-btree full" => RGBColor(0x8F, 0xB8, 0xD0),
        _ => return None,
    })
}

/// Returns both graphs of the paper: with a pool that holds all, and with one that holds next to nothing.
pub(super) fn drawings(points: &[Point]) -> Vec<Drawing> {
    let pools = points.iter().filter(|point| point.bench == "object-cache").map(|point| number(point, "pool_bytes"));
    let (Some(large), Some(small)) = (pools.clone().max(), pools.min()) else { return Vec::new() };
    let title = |of: &str| format!("Updates of objects of 1 KiB per second, {of}");
    let by_change = Drawing {
        name: "object-cache-changed",
        title: title("a pool for all"),
        lines: lines(points, large, "changed_bytes"),
        x: "bytes changed",
        marks: Vec::new(),
    };
    let by_hot = Drawing {
        name: "object-cache-hot",
        title: title("a small pool"),
        lines: lines(points, small, "hot_percent"),
        x: "percent of the updates that are of the hot set",
        marks: Vec::new(),
    };
    vec![by_change, by_hot]
}

/// Returns updates per second over pools of this size, by a parameter; of Cedrat's caches those with relaxed undo, as in
/// the paper.
fn lines(points: &[Point], pool_bytes: u64, by: &str) -> Lines {
    let mut lines = Lines::new();
    let updates = points.iter().filter(|point| point.bench == "object-cache" && point.metric == "updates_per_s");
    for point in updates.filter(|point| number(point, "pool_bytes") == pool_bytes) {
        let variant = text(point, "variant");
        let name = match (point.system.as_str(), text(point, "undo").as_str()) {
            ("cedrat", "relaxed" | "logged") => variant,
            ("cedrat", _) => continue,
            (system, _) => format!("{system} {variant}"),
        };
        lines.entry(name).or_default().push((number(point, by), point.value));
    }
    lines.retain(|_, line| line.len() > 1);
    lines.values_mut().for_each(|line| line.sort_by_key(|&(at, _)| at));
    lines
}

fn text(point: &Point, name: &str) -> String {
    point.params.get(name).map(plain).unwrap_or_default()
}

fn number(point: &Point, name: &str) -> u64 {
    point.params.get(name).and_then(Value::as_u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::params;

    #[test]
    fn each_graph_has_points_of_its_pool() {
        let point = |system: &str, variant: &str, undo: &str, pool: u64, changed: u64, hot: u64, value| {
            let params = params! {
                "variant": variant, "undo": undo, "pool_bytes": pool, "changed_bytes": changed, "hot_percent": hot,
            };
            Point::new("object-cache", system, params, "updates_per_s", value, "1/s")
        };
        let drawn = drawings(&[
            point("cedrat", "delta", "relaxed", 32, 512, 90, 4.0),
            point("cedrat", "delta", "relaxed", 32, 4, 90, 8.0),
            point("cedrat", "delta", "inverses", 32, 4, 90, 7.0),
            point("bdb-hash", "partial", "logged", 1, 4, 50, 1.0),
            point("bdb-hash", "partial", "logged", 1, 4, 100, 2.0),
            point("cedrat", "delta", "relaxed", 1, 4, 100, 3.0),
        ]);
        assert_eq!(drawn[0].lines, Lines::from([("delta".into(), vec![(4, 8.0), (512, 4.0)])]));
        assert_eq!(drawn[1].lines, Lines::from([("bdb-hash partial".into(), vec![(50, 1.0), (100, 2.0)])]));
        assert!(drawings(&[]).is_empty());
    }
}
