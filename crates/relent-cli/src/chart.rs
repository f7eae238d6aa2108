//! Charts made of characters.

use crate::terminal::Terminal;

/// A bar for a time that lies between two bounds: solid up to the lowest, then thinner towards the highest.
///
/// `unit` is the time that fills `width` columns.
pub(crate) fn range_bar(
    lowest: f64,
    mean: f64,
    highest: f64,
    unit: f64,
    width: usize,
    terminal: Terminal,
) -> String {
    let column = |value: f64| if unit > 0.0 { (value / unit * width as f64).round() as usize } else { 0 };
    // What is not nothing shows.
    let end = column(highest).max(usize::from(highest > 0.0)).min(width);
    // A wait without a range is solid, however short.
    let solid = if lowest >= highest { end } else { column(lowest).min(end) };
    let middle = column(mean).min(end);
    let [full, dark, light] = if terminal.unicode { ['█', '▓', '░'] } else { ['#', '=', '-'] };
    let piece = |symbol: char, from: usize, to: usize| std::iter::repeat_n(symbol, to.saturating_sub(from));
    piece(full, 0, solid)
        .chain(piece(dark, solid, middle))
        .chain(piece(light, middle.max(solid), end))
        .collect()
}

/// An area chart: one column per value, `rows` high; the highest of all charts of a group is `top`.
///
/// Rows from the top. A value above zero shows at least its lowest step.
pub(crate) fn area(values: &[f64], top: f64, rows: usize, terminal: Terminal) -> Vec<String> {
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const THIRDS: [char; 4] = [' ', '.', ':', '#'];
    let steps: &[char] = if terminal.unicode { &EIGHTHS } else { &THIRDS };
    let per_row = steps.len() - 1;
    let height = |value: f64| {
        if value <= 0.0 || top <= 0.0 || rows == 0 {
            return 0;
        }
        ((value / top * (rows * per_row) as f64).round() as usize).clamp(1, rows * per_row)
    };
    let row = |row: usize| {
        let below = (rows - 1 - row) * per_row;
        let symbol = |value: &f64| {
            let step = height(*value).saturating_sub(below).min(per_row);
            steps.get(step).copied().unwrap_or(' ')
        };
        values.iter().map(symbol).collect::<String>().trim_end().to_owned()
    };
    (0..rows).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNICODE: Terminal = Terminal { width: 80, unicode: true };
    const ASCII: Terminal = Terminal { width: 80, unicode: false };

    #[test]
    fn a_bar_thins_out_from_lowest_to_highest() {
        assert_eq!(range_bar(2.0, 4.0, 8.0, 8.0, 8, UNICODE), "██▓▓░░░░");
        assert_eq!(range_bar(2.0, 4.0, 8.0, 8.0, 8, ASCII), "##==----");
        assert_eq!(range_bar(8.0, 8.0, 8.0, 8.0, 8, ASCII), "########");
    }

    #[test]
    fn a_bar_shows_whatever_is_not_nothing_and_never_passes_its_width() {
        assert_eq!(range_bar(0.0, 0.0, 0.0, 8.0, 8, ASCII), "");
        assert_eq!(range_bar(0.0, 0.001, 0.002, 8.0, 8, ASCII), "-");
        assert_eq!(range_bar(0.0, 50.0, 100.0, 8.0, 8, ASCII).len(), 8);
        assert_eq!(range_bar(0.0, 0.0, 0.0, 0.0, 8, ASCII), "");
    }

    #[test]
    fn an_area_has_the_height_of_its_values() {
        assert_eq!(area(&[0.0, 1.0, 2.0, 4.0], 4.0, 2, ASCII), ["   #", " :##"]);
        assert_eq!(area(&[8.0, 16.0, 1.0], 16.0, 2, UNICODE), [" █", "██▁"]);
        assert_eq!(area(&[0.001, 1000.0], 1000.0, 1, UNICODE), ["▁█"]);
    }
}
