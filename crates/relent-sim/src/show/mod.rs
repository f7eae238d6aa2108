//! Results as text and pictures: functions from values to strings.

mod braille;
mod export;
mod svg;
mod table;

pub use braille::{Panel, panels};
pub use svg::{Axis, Figure, Line, Shade, Shape};

use crate::measure::Measure;
use crate::run::{Comparison, Report};

impl Comparison {
    /// The figures that say something in this scenario, in the order of the table.
    pub fn measures(&self) -> Vec<Measure> {
        let incident = self.scenario.has_incident();
        Measure::ALL
            .into_iter()
            .filter(|measure| match measure {
                // Without an incident the time to drain is the time to completion.
                Measure::Completion => !incident && self.scenario.ends(),
                Measure::Drain => incident,
                _ => true,
            })
            .filter(|measure| self.reports.iter().any(|report| report.estimate(*measure).is_some()))
            .collect()
    }

    /// The load over time as braille panels, one for each policy, `width` characters wide. Colours only where asked for.
    pub fn chart(&self, width: usize, colours: bool) -> String {
        let attempts: Vec<(String, Vec<f64>)> = self
            .reports
            .iter()
            .map(|report| (report.name.clone(), self.rates(report, Column::Attempts)))
            .collect();
        let longest = self.shown_bins();
        let list: Vec<Panel<'_>> = attempts
            .iter()
            .map(|(name, rates)| Panel {
                title: name,
                values: rates.get(..longest.min(rates.len())).unwrap_or(&[]),
            })
            .collect();
        panels(&list, longest as f64 * self.scenario.bin.as_secs_f64(), "attempts/s", width, 5, colours)
    }

    /// The load over time as an SVG picture.
    pub fn svg(&self) -> String {
        self.figure(Column::Attempts).svg()
    }

    /// A series of all policies over time.
    pub fn figure(&self, column: Column) -> Figure {
        let bin = self.scenario.bin.as_secs_f64();
        let bins = self.shown_bins();
        let lines = self.reports.iter().map(|report| {
            let rates = self.rates(report, column).into_iter().chain(std::iter::repeat(0.0)).take(bins);
            let points = rates.enumerate().map(|(index, rate)| ((index as f64 + 0.5) * bin, rate)).collect();
            Line { name: report.name.clone(), points, shape: Shape::Steps }
        });
        Figure {
            title: format!("{}: {}", self.scenario.name, column.title()),
            x: Axis::linear("time in s"),
            y: Axis::linear(column.unit()),
            lines: lines.collect(),
            shade: self.scenario.trouble().map(|(from, to)| Shade {
                from: from.as_secs_f64(),
                to: to.as_secs_f64(),
                label: "trouble".into(),
            }),
        }
    }

    /// A series per second, the mean of the replications.
    pub fn rates(&self, report: &Report, column: Column) -> Vec<f64> {
        let replications = f64::from(report.replications.max(1));
        let per = match column {
            Column::Open => replications,
            _ => replications * self.scenario.bin.as_secs_f64(),
        };
        column.of(report).iter().map(|count| *count as f64 / per).collect()
    }

    /// Up to the bin in which the last policy but the slowest tail has ended (99.9 % of all attempts), or four times as
    /// far as the first.
    fn shown_bins(&self) -> usize {
        let end = |report: &Report| {
            let total: u64 = report.series.attempts.iter().sum();
            let mut left = total - total / 1000;
            let last = report.series.attempts.iter().position(|count| {
                left = left.saturating_sub(*count);
                left == 0
            });
            last.map_or(0, |last| last + 1)
        };
        let ends = || self.reports.iter().map(end);
        let all = ends().max().unwrap_or(0).max(1);
        // One policy that goes on for ever must not squeeze the others into a corner.
        let most =
            if self.scenario.has_incident() { all } else { ends().min().unwrap_or(all).saturating_mul(4) };
        all.min(most)
    }
}

/// A series of a [`Report`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Calls begun.
    Calls,
    /// Attempts made.
    Attempts,
    /// Calls that succeeded.
    Succeeded,
    /// Calls that failed.
    Failed,
    /// Calls open.
    Open,
}

impl Column {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Calls, Self::Attempts, Self::Succeeded, Self::Failed, Self::Open];

    fn of(self, report: &Report) -> &[u64] {
        let series = &report.series;
        match self {
            Self::Calls => &series.calls,
            Self::Attempts => &series.attempts,
            Self::Succeeded => &series.succeeded,
            Self::Failed => &series.failed,
            Self::Open => &series.open,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Attempts => "attempts",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Open => "open",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Calls => "calls begun",
            Self::Attempts => "load",
            Self::Succeeded => "goodput",
            Self::Failed => "calls that fail",
            Self::Open => "open calls",
        }
    }

    const fn unit(self) -> &'static str {
        match self {
            Self::Calls | Self::Failed => "calls per second",
            Self::Attempts => "attempts per second",
            Self::Succeeded => "successes per second",
            Self::Open => "calls",
        }
    }
}
