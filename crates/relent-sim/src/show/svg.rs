//! Pictures: lines over axes, light and dark.

use std::fmt::Write as _;

use crate::text;

/// A picture of lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its heading.
    pub title: String,
    /// The axis to the right.
    pub x: Axis,
    /// The axis upwards.
    pub y: Axis,
    /// The lines, up to eight that can be told apart.
    pub lines: Vec<Line>,
    /// What is shaded, from and to on the axis to the right, and what that is.
    pub shade: Option<Shade>,
}

/// A part of the picture that is set apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Shade {
    /// Where it begins on the axis to the right.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// What it is.
    pub label: String,
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// What it shows, and in which unit.
    pub label: String,
    /// Whether equal factors are equal steps. Only numbers above zero can be shown then.
    pub logarithmic: bool,
}

impl Axis {
    /// An even axis.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), logarithmic: false }
    }

    /// A logarithmic axis.
    pub fn logarithmic(label: impl Into<String>) -> Self {
        Self { label: label.into(), logarithmic: true }
    }
}

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its points, in order of x.
    pub points: Vec<(f64, f64)>,
    /// How they are joined.
    pub shape: Shape,
}

/// How the points of a line are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// By straight lines.
    Joined,
    /// By straight lines, dashed, in the colour of the line before it: its law, or somebody else's figures for it.
    Dashed,
    /// Not at all.
    Dots,
    /// Each is the middle of a bin; where there are more bins than the picture has room for, their highest value is drawn.
    Steps,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 52.0;
const LEGEND_ROW: f64 = 18.0;

/// Colours that can be told apart without red and green (Okabe, Ito 2008), brighter ones on dark.
const STYLE: &str = "\
svg{color:#1b1f24;font:13px system-ui,sans-serif}.back{fill:#fff}.shade{fill:#f3d9a4;fill-opacity:.55}\
text{fill:currentColor}.grid{stroke:#d8dee4;stroke-width:1}.axis{stroke:currentColor;stroke-width:1}\
.line{fill:none;stroke-width:1.6;stroke-linejoin:round}.dashed{stroke-dasharray:5 4}\
.c0{stroke:#0072b2;fill:#0072b2}.c1{stroke:#d55e00;fill:#d55e00}.c2{stroke:#009e73;fill:#009e73}\
.c3{stroke:#cc79a7;fill:#cc79a7}.c4{stroke:#a07800;fill:#a07800}.c5{stroke:#56b4e9;fill:#56b4e9}\
.c6{stroke:#5b4b9a;fill:#5b4b9a}.c7{stroke:#707070;fill:#707070}.line{fill:none}\
@media (prefers-color-scheme:dark){svg{color:#e6edf3}.back{fill:#0d1117}.shade{fill:#5c4a1e}.grid{stroke:#30363d}\
.c0{stroke:#4aa8e0;fill:#4aa8e0}.c1{stroke:#ff8a3d;fill:#ff8a3d}.c2{stroke:#2fd0a0;fill:#2fd0a0}\
.c3{stroke:#e8a4cb;fill:#e8a4cb}.c4{stroke:#e6c33c;fill:#e6c33c}.c6{stroke:#a99be8;fill:#a99be8}\
.c7{stroke:#a8a8a8;fill:#a8a8a8}.line{fill:none}}";

impl Figure {
    /// The picture as SVG: no script, no font, nothing from elsewhere; colours follow the reader's scheme.
    pub fn svg(&self) -> String {
        let columns = self.legend_columns();
        let rows = self.lines.len().div_ceil(columns).max(1) as f64;
        let height = HEIGHT + rows * LEGEND_ROW;
        let x = Scale::of(
            &self.x,
            self.lines.iter().flat_map(|line| &line.points).map(|point| point.0),
            LEFT,
            WIDTH - RIGHT,
        );
        let y = Scale::of(
            &self.y,
            self.lines.iter().flat_map(|line| &line.points).map(|point| point.1),
            HEIGHT - BOTTOM,
            TOP,
        );
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             aria-label=\"{}\"><style>{STYLE}</style>",
            escaped(&self.title)
        );
        // A background in the style is one for browsers only.
        let _ = writeln!(out, "<rect class=\"back\" width=\"{WIDTH}\" height=\"{height}\"/>");
        self.shade(&mut out, &x);
        let _ = writeln!(
            out,
            "<text x=\"{LEFT}\" y=\"22\" font-size=\"15\" font-weight=\"600\">{}</text>",
            escaped(&self.title)
        );
        self.axes(&mut out, &x, &y);
        let mut colours = 0;
        for (index, line) in self.lines.iter().enumerate() {
            colours += usize::from(line.shape != Shape::Dashed || index == 0);
            let colour = (colours - 1) % 8;
            draw(&mut out, line, colour, &x, &y);
            let column = (index % columns) as f64 * (WIDTH - LEFT) / columns as f64 + LEFT;
            let row = HEIGHT + (index / columns) as f64 * LEGEND_ROW;
            let sample = match line.shape {
                Shape::Dots => format!(
                    "<circle class=\"c{colour}\" cx=\"{:.0}\" cy=\"{row:.0}\" r=\"3\"/>",
                    column + 9.0
                ),
                shape => {
                    let dashed = if shape == Shape::Dashed { " dashed" } else { "" };
                    format!("<path class=\"line c{colour}{dashed}\" d=\"M{column:.0} {row:.0}h18\"/>")
                }
            };
            let (x, y) = (column + 24.0, row + 4.0);
            let _ = writeln!(out, "{sample}<text x=\"{x:.0}\" y=\"{y:.0}\">{}</text>", escaped(&line.name));
        }
        out.push_str("</svg>\n");
        out
    }

    /// As many names side by side as there is room for.
    fn legend_columns(&self) -> usize {
        match self.lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0) {
            ..=27 => 3,
            28..=43 => 2,
            _ => 1,
        }
    }

    fn shade(&self, out: &mut String, x: &Scale) {
        let Some(Shade { from, to, label }) = &self.shade else { return };
        let place = |number: f64| x.place(number.clamp(x.from, x.to)).clamp(LEFT, WIDTH - RIGHT);
        // Something to see even where it is short.
        let (start, end) = (place(*from), place(*to).max(place(*from) + 2.0));
        let _ = writeln!(
            out,
            "<rect class=\"shade\" x=\"{start:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{}\" font-size=\"11\">{}</text>",
            end - start,
            HEIGHT - BOTTOM - TOP,
            start + 2.0,
            TOP - 4.0,
            escaped(label)
        );
    }

    fn axes(&self, out: &mut String, x: &Scale, y: &Scale) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for tick in y.ticks() {
            let at = y.place(tick);
            let _ = writeln!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                at + 4.0,
                text::number(tick)
            );
        }
        for tick in x.ticks() {
            let at = x.place(tick);
            let _ = writeln!(
                out,
                "<path class=\"axis\" d=\"M{at:.1} {bottom}v5\"/><text x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
                bottom + 19.0,
                text::number(tick)
            );
        }
        let _ = writeln!(out, "<path class=\"axis\" fill=\"none\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>");
        let _ = writeln!(
            out,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, right),
            bottom + 37.0,
            escaped(&self.x.label)
        );
        let middle = f64::midpoint(TOP, bottom);
        let _ = writeln!(
            out,
            "<text transform=\"translate(16 {middle:.0}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            escaped(&self.y.label)
        );
    }
}

fn draw(out: &mut String, line: &Line, colour: usize, x: &Scale, y: &Scale) {
    let visible = line.points.iter().filter(|(px, py)| x.shows(*px) && y.shows(*py));
    let placed = visible.map(|(px, py)| (x.place(*px), y.place(*py)));
    if line.shape == Shape::Dots {
        for (px, py) in placed {
            let _ = writeln!(out, "<circle class=\"c{colour}\" cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"3\"/>");
        }
        return;
    }
    let mut points: Vec<(f64, f64)> = placed.collect();
    if line.shape == Shape::Steps {
        // The highest value of each pixel (the lowest y).
        points.dedup_by(|next, kept| {
            let same = libm::floor(next.0) == libm::floor(kept.0);
            if same {
                kept.1 = kept.1.min(next.1);
            }
            same
        });
    }
    let mut path = String::new();
    for (index, (px, py)) in points.iter().enumerate() {
        let _ = write!(path, "{}{px:.1} {py:.1}", if index == 0 { 'M' } else { 'L' });
    }
    let dashed = if line.shape == Shape::Dashed { " dashed" } else { "" };
    let _ = writeln!(out, "<path class=\"line c{colour}{dashed}\" d=\"{path}\"/>");
}

/// From numbers to places.
struct Scale {
    logarithmic: bool,
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Scale {
    fn of(axis: &Axis, numbers: impl Iterator<Item = f64>, start: f64, end: f64) -> Self {
        let numbers = numbers.filter(|number| number.is_finite() && (!axis.logarithmic || *number > 0.0));
        let (least, most) =
            numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), n| (a.min(n), b.max(n)));
        let (from, to) = match axis.logarithmic {
            _ if least > most => (if axis.logarithmic { 0.1 } else { 0.0 }, 1.0),
            true => (least, if most > least { most } else { least * 10.0 }),
            false => (least.min(0.0), if most > least.min(0.0) { most * 1.02 } else { 1.0 }),
        };
        Self { logarithmic: axis.logarithmic, from, to, start, end }
    }

    fn shows(&self, number: f64) -> bool {
        number.is_finite() && (!self.logarithmic || number > 0.0)
    }

    fn place(&self, number: f64) -> f64 {
        let part = if self.logarithmic {
            libm::log(number / self.from) / libm::log(self.to / self.from)
        } else {
            (number - self.from) / (self.to - self.from)
        };
        self.start + part * (self.end - self.start)
    }

    /// Five or so round numbers.
    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decade = |n: f64| libm::exp10(n);
            let (first, last) = (libm::floor(libm::log10(self.from)), libm::ceil(libm::log10(self.to)));
            let factors: &[f64] = if last - first > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let decades = (0..=(last - first) as i32).map(|n| decade(first + f64::from(n)));
            let all = decades.flat_map(|decade| factors.iter().map(move |factor| decade * factor));
            return all.filter(|tick| (self.from * 0.999..=self.to * 1.001).contains(tick)).collect();
        }
        let rough = (self.to - self.from) / 6.0;
        let magnitude = libm::exp10(libm::floor(libm::log10(rough)));
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|factor| factor * magnitude).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        let first = libm::ceil(self.from / step) as i64;
        let last = libm::floor(self.to / step) as i64;
        (first..=last).map(|n| n as f64 * step).collect()
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_axes_units_and_a_legend() {
        let line =
            |name: &str, shape| Line { name: name.into(), points: vec![(0.0, 1.0), (10.0, 100.0)], shape };
        let lines = vec![line("a < b", Shape::Joined), line("law", Shape::Dashed), line("dots", Shape::Dots)];
        let figure = Figure {
            title: "T & t".into(),
            x: Axis::linear("time in s"),
            y: Axis::logarithmic("load"),
            lines,
            shade: Some(Shade { from: 2.0, to: 4.0, label: "out".into() }),
        };
        let svg = figure.svg();
        for part in [
            "a &lt; b",
            "T &amp; t",
            "time in s",
            ">load<",
            ">100<",
            "prefers-color-scheme:dark",
            "dashed",
            "<circle",
            ">out<",
            "<rect class=\"back\"",
        ] {
            assert!(svg.contains(part), "{part}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        // An empty one is a picture too.
        let svg = Figure { lines: Vec::new(), ..figure }.svg();
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN"));
    }
}
