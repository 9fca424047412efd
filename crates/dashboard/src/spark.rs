//! Sparklines of a room's resource usage over the last minutes.

use crate::text::size;

/// The size of a sparkline.
const WIDTH: usize = 118;
const HEIGHT: u64 = 16;

/// How many values fill the width.
pub const MOST: usize = 60;

/// A room's resource usage: the current values as text, and sparklines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub cpu: String,
    pub cpu_line: String,
    pub memory: String,
    pub memory_line: String,
    pub processes: u64,
}

impl Usage {
    /// Formats CPU values in percent of a core, and memory in bytes; the newest are last.
    pub fn new(cpu: &[u64], memory: &[u64], processes: u64) -> Self {
        Self {
            cpu: cpu.last().map(|percent| format!("{percent} %")).unwrap_or_default(),
            // An idle room has a flat line rather than magnified noise.
            cpu_line: points(cpu, 20),
            memory: memory.last().map(|bytes| size(*bytes)).unwrap_or_default(),
            memory_line: points(memory, 64 << 20),
            processes,
        }
    }
}

/// Returns the points of a line, with the newest value at the right. The full height is the largest value, or `least`
/// if that is larger. Heights are whole numbers: small changes look the same, so they are not sent again.
fn points(values: &[u64], least: u64) -> String {
    let values = &values[values.len().saturating_sub(MOST)..];
    let top = values.iter().copied().max().unwrap_or(0).max(least).max(1);
    let step = WIDTH / (MOST - 1).max(1);
    let begin = WIDTH - step * values.len().saturating_sub(1);
    let points = values.iter().enumerate().map(|(at, value)| {
        let up = u128::from(*value) * u128::from(HEIGHT) / u128::from(top);
        let down = u64::try_from(up).map_or(0, |up| HEIGHT - up.min(HEIGHT));
        format!("{},{}", begin + at * step, down + 2)
    });
    points.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_at_the_right_and_stays_in_its_box() {
        assert_eq!(points(&[], 10), "");
        assert_eq!(points(&[5, 10], 10), "116,10 118,2");
        assert_eq!(points(&[0, 0], 10), "116,18 118,18");
        let long = points(&vec![u64::MAX; 200], 1);
        assert_eq!(long.split(' ').count(), MOST);
        assert!(long.ends_with("118,2"), "{long}");
    }
}
