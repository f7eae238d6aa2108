//! Charts in a terminal, drawn with braille dots.

use crate::text;

/// One panel: a line over time.
#[derive(Clone, Copy, Debug)]
pub struct Panel<'a> {
    /// Its heading.
    pub title: &'a str,
    /// Values at even steps.
    pub values: &'a [f64],
}

/// Colours of the lines: those of the terminal's own palette that show on light and dark.
const COLOURS: [&str; 6] = ["36", "33", "35", "32", "34", "31"];

/// Panels one above the other with one scale, so that they can be compared by eye. `x_end` is where the time axis ends,
/// in seconds; `rows` is each panel's height.
pub fn panels(
    panels: &[Panel<'_>],
    x_end: f64,
    unit: &str,
    width: usize,
    rows: usize,
    colours: bool,
) -> String {
    let most = panels.iter().flat_map(|panel| panel.values).copied().fold(0.0, f64::max);
    let labels = [text::number(most), "0".to_owned()];
    let margin = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0) + 2;
    let columns = width.saturating_sub(margin).max(10);
    let longest = panels.iter().map(|panel| panel.values.len()).max().unwrap_or(0);
    let mut out = String::new();
    for (panel, colour) in panels.iter().zip(COLOURS.iter().cycle()) {
        let peak = panel.values.iter().copied().fold(0.0, f64::max);
        out.push_str(&format!("{}  (peak {} {unit})\n", panel.title, text::number(peak)));
        let grid = dots(panel.values, longest, most, columns, rows);
        for (row, line) in grid.iter().enumerate() {
            let label = match row {
                0 => labels.first().map_or("", String::as_str),
                _ if row + 1 == rows => "0",
                _ => "",
            };
            let line = line.trim_end_matches('\u{2800}');
            let line = if colours && !line.is_empty() {
                format!("\u{1b}[{colour}m{line}\u{1b}[0m")
            } else {
                line.to_owned()
            };
            out.push_str(&format!("{label:>pad$} ┤{line}\n", pad = margin - 2));
        }
    }
    let end = text::seconds(x_end);
    let dashes = "─".repeat(columns);
    out.push_str(&format!("{:pad$} └{dashes}\n", "", pad = margin - 2));
    let gap = columns.saturating_sub(end.chars().count() + 1);
    out.push_str(&format!("{:pad$}  0{:gap$}{end}\n", "", "", pad = margin - 2));
    out
}

/// A filled curve: each column's dots from the bottom to its value, so that peaks narrower than a dot still show.
fn dots(values: &[f64], longest: usize, most: f64, columns: usize, rows: usize) -> Vec<String> {
    let (across, up) = (columns * 2, rows * 4);
    let height = |column: usize| {
        let from = column * longest / across;
        let to = ((column + 1) * longest).div_ceil(across).max(from + 1);
        let highest = values.iter().take(to).skip(from).copied().fold(0.0, f64::max);
        if highest > 0.0 && most > 0.0 { libm::ceil(highest / most * up as f64) as usize } else { 0 }
    };
    let heights: Vec<usize> = (0..across).map(height).collect();
    let cell = |row: usize, pair: &[usize]| {
        // Dots 1–3, 7 on the left and 4–6, 8 on the right, from the top (Unicode, Braille Patterns).
        const BITS: [[u32; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
        let base = (rows - 1 - row) * 4;
        let lit = |side: [u32; 4], height: usize| {
            let dots = side.iter().enumerate().filter(move |(from_top, _)| height > base + 3 - from_top);
            dots.map(|(_, bit)| bit).sum::<u32>()
        };
        let bits: u32 = BITS.into_iter().zip(pair).map(|(side, height)| lit(side, *height)).sum();
        char::from_u32(0x2800 + bits).unwrap_or(' ')
    };
    (0..rows).map(|row| heights.chunks(2).map(|pair| cell(row, pair)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_fills_its_triangle() {
        let grid = dots(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], 8, 8.0, 4, 2);
        assert_eq!(grid, ["⠀⠀⣠⣾", "⣠⣾⣿⣿"]);
    }

    #[test]
    fn panels_share_their_scale() {
        let list = [Panel { title: "a", values: &[4.0, 0.0] }, Panel { title: "b", values: &[2.0, 2.0] }];
        let text = panels(&list, 2.0, "calls/s", 13, 1, false);
        assert_eq!(
            text,
            "a  (peak 4 calls/s)\n4 ┤⣿⣿⣿⣿⣿\nb  (peak 2 calls/s)\n4 ┤⣤⣤⣤⣤⣤⣤⣤⣤⣤⣤\n  └──────────\n   0      2 s\n"
        );
        assert!(panels(&list, 2.0, "calls/s", 13, 1, true).contains("\u{1b}[36m"));
        // Nothing at all is a chart too.
        assert!(panels(&[Panel { title: "a", values: &[] }], 0.0, "", 20, 2, false).contains("peak 0"));
    }
}
