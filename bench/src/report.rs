//! Measurements: their types, their printing, and the median.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Parameters of a measurement, by name, in order.
pub(crate) type Params = Map<String, Value>;

/// Makes [`Params`].
macro_rules! params {
    ($($name:literal: $value:expr),* $(,)?) => {{
        let mut params = $crate::report::Params::new();
        $(params.insert($name.into(), serde_json::json!($value));)*
        params
    }};
}
pub(crate) use params;

/// One number, as a line of `--json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) bench: String,
    pub(crate) system: String,
    pub(crate) params: Params,
    pub(crate) metric: String,
    pub(crate) value: f64,
    pub(crate) unit: String,
}

impl Point {
    pub(crate) fn new(bench: &str, system: &str, params: Params, metric: &str, value: f64, unit: &str) -> Point {
        Point { bench: bench.into(), system: system.into(), params, metric: metric.into(), value, unit: unit.into() }
    }
}

/// Required ratio within one run.
pub(crate) struct Goal {
    pub(crate) what: String,
    pub(crate) reached: Option<f64>,
    pub(crate) wanted: f64,
    pub(crate) sense: Sense,
}

/// Side of the required number that is good.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sense {
    AtLeast,
    AtMost,
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.sense == Sense::AtLeast { "≥" } else { "≤" };
        let verdict = match self.holds() {
            Some(true) => "reached",
            Some(false) => "MISSED",
            None => "not measured",
        };
        let reached = self.reached.map_or("-".into(), grouped);
        write!(f, "{verdict:12}  {reached:>12}  (wanted {sign} {})  {}", grouped(self.wanted), self.what)
    }
}

impl Goal {
    pub(crate) fn at_least(what: impl Into<String>, reached: Option<f64>, wanted: f64) -> Goal {
        Goal { what: what.into(), reached, wanted, sense: Sense::AtLeast }
    }

    pub(crate) fn at_most(what: impl Into<String>, reached: Option<f64>, wanted: f64) -> Goal {
        Goal { what: what.into(), reached, wanted, sense: Sense::AtMost }
    }

    fn holds(&self) -> Option<bool> {
        self.reached.map(|reached| match self.sense {
            Sense::AtLeast => reached >= self.wanted,
            Sense::AtMost => reached <= self.wanted,
        })
    }
}

/// Results of a figure.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) points: Vec<Point>,
    pub(crate) goals: Vec<Goal>,
    /// Sentences that a reader of the numbers must know.
    pub(crate) notes: Vec<String>,
}

impl Report {
    /// Returns the value of the first point that `fits`.
    pub(crate) fn value(&self, system: &str, metric: &str, params: &Params) -> Option<f64> {
        let fits = |point: &&Point| {
            point.system == system
                && point.metric == metric
                && params.iter().all(|(name, value)| point.params.get(name) == Some(value))
                && point.params.get("strategy").is_none()
        };
        self.points.iter().find(fits).map(|point| point.value)
    }

    pub(crate) fn ratio(&self, above: (&str, &str, &Params), below: (&str, &str, &Params)) -> Option<f64> {
        Some(self.value(above.0, above.1, above.2)? / self.value(below.0, below.1, below.2)?)
    }

    /// Returns the table in readable form.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        let rows: Vec<[String; 4]> = self
            .points
            .iter()
            .map(|point| {
                let params: Vec<String> =
                    point.params.iter().map(|(name, value)| format!("{name}={}", plain(value))).collect();
                [
                    point.system.clone(),
                    params.join(" "),
                    point.metric.clone(),
                    format!("{} {}", grouped(point.value), point.unit),
                ]
            })
            .collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..4).map(width).collect();
        for row in &rows {
            let _ = writeln!(
                text,
                "  {:w0$}  {:w1$}  {:w2$}  {:>w3$}",
                row[0],
                row[1],
                row[2],
                row[3],
                w0 = widths[0],
                w1 = widths[1],
                w2 = widths[2],
                w3 = widths[3]
            );
        }
        for goal in &self.goals {
            let _ = writeln!(text, "  {goal}");
        }
        for note in &self.notes {
            let _ = writeln!(text, "  note: {note}");
        }
        text
    }
}

/// Returns a parameter's value without quotes.
pub(crate) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns a number in readable form: 12,345 or 0.97.
pub(crate) fn grouped(value: f64) -> String {
    if value.abs() < 100.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

/// Returns the median; the mean of the middle two for an even number. `None` if there are none.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn point_is_written_in_shared_json_format() {
        let point = Point::new("commit", "lmdb", params! {"threads": 8, "outstanding": 1}, "commits_per_s", 5.5, "1/s");
        assert_eq!(
            serde_json::to_string(&point).unwrap(),
            r#"{"bench":"commit","system":"lmdb","params":{"outstanding":1,"threads":8},"metric":"commits_per_s","value":5.5,"unit":"1/s"}"#
        );
    }

    #[test]
    fn the_middle_is_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(grouped(0.5), "0.50");
        assert_eq!(grouped(123.0), "123");
        assert_eq!(grouped(1_234_567.0), "1,234,567");
    }
}
