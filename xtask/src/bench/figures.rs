//! The measurements of a binary, and the comparison of two.

use super::print;

/// A value that was measured for a binary, without its peer.
#[derive(Clone, Debug, PartialEq)]
struct Figure {
    name: String,
    unit: &'static str,
    values: Vec<f64>,
}

/// The measurements of one binary, in their order.
#[derive(Debug, Default)]
pub(super) struct Figures(Vec<Figure>);

impl Figures {
    /// Adds a value to those measured under the same name.
    pub(super) fn add(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        let name = name.into();
        match self.0.iter_mut().find(|known| known.name == name) {
            Some(known) => known.values.push(value),
            None => self.0.push(Figure { name, unit, values: vec![value] }),
        }
    }

    fn median(&self, name: &str) -> Option<f64> {
        let mut values = self.0.iter().find(|known| known.name == name)?.values.clone();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }
}

/// Prints the medians of two binaries next to each other.
pub(super) fn compare(now: &Figures, before: &Figures, revision: &str) {
    table(now, before, revision).iter().for_each(|line| print(line));
}

/// Formats the comparison. A figure that only one of them has is shown without a ratio.
fn table(now: &Figures, before: &Figures, revision: &str) -> Vec<String> {
    let only_before = before.0.iter().filter(|known| now.median(&known.name).is_none());
    let all: Vec<&Figure> = now.0.iter().chain(only_before).collect();
    let wide = all.iter().map(|figure| figure.name.chars().count()).max().unwrap_or(0).max(6);
    let side = revision.chars().count().max(12);
    let row = |name: &str, [now, before, ratio]: [String; 3]| {
        format!("{name:<wide$}  {now:>12}  {before:>side$}  {ratio:>6}")
    };
    let head = row("figure", ["now".into(), revision.into(), "ratio".into()]);
    let rows = all.iter().map(|figure| {
        let (now, before) = (now.median(&figure.name), before.median(&figure.name));
        let shown = |value: Option<f64>| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2} {}", figure.unit))
        };
        let ratio = match (now, before) {
            (Some(now), Some(before)) if before != 0.0 => format!("{:.2}", now / before),
            _ => "-".to_owned(),
        };
        row(&figure.name, [shown(now), shown(before), ratio])
    });
    std::iter::once(head).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_stand_beside_each_other_with_their_ratio() {
        let (mut now, mut before) = (Figures::default(), Figures::default());
        for (value, earlier) in [(3.0, 2.0), (90.0, 4.0), (2.0, 6.0)] {
            now.add("exec", value, "ms");
            before.add("exec", earlier, "ms");
        }
        now.add("new", 1.0, "MB");
        before.add("gone", 1.0, "MB");
        let shown: Vec<Vec<String>> = table(&now, &before, "v1")
            .iter()
            .map(|line| line.split_whitespace().map(str::to_owned).collect())
            .collect();
        assert_eq!(
            shown,
            [
                vec!["figure", "now", "v1", "ratio"],
                vec!["exec", "3.00", "ms", "4.00", "ms", "0.75"],
                vec!["new", "1.00", "MB", "-", "-"],
                vec!["gone", "-", "1.00", "MB", "-"],
            ]
        );
    }
}
