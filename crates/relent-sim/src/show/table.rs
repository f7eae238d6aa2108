//! The comparison in a table and in a sentence.

use crate::measure::{Better, Estimate, Measure, Unit};
use crate::model::Broken;
use crate::run::{Comparison, Report};
use crate::text;

impl Comparison {
    /// The table: a row for each figure, a column for each policy, the best of each row marked with `*` (bold where
    /// colours are asked for). `±` is the standard error over the replications.
    pub fn table(&self, colours: bool) -> String {
        let mut rows = vec![
            std::iter::once(String::new())
                .chain(self.reports.iter().map(|report| report.name.clone()))
                .collect(),
        ];
        let mut best_of = vec![Vec::new()];
        for measure in self.measures() {
            let cells = self.reports.iter().map(|report| cell(measure, report.estimate(measure)));
            rows.push(std::iter::once(measure.title().to_owned()).chain(cells).collect::<Vec<String>>());
            best_of.push(self.best(measure));
        }
        let columns = self.reports.len() + 1;
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = String::new();
        for (row, best) in rows.iter().zip(&best_of) {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let is_best = column > 0 && best.contains(&(column - 1));
                let pad = " ".repeat(width - cell.chars().count());
                let mark = if is_best { "*" } else { " " };
                match column {
                    0 => out.push_str(&format!("{cell}{pad}")),
                    _ if is_best && colours => {
                        out.push_str(&format!("   {pad}\u{1b}[1m{cell}\u{1b}[0m{mark}"))
                    }
                    _ => out.push_str(&format!("   {pad}{cell}{mark}")),
                }
            }
            out.truncate(out.trim_end().len());
            out.push('\n');
        }
        out
    }

    /// The places of the policies whose figure is the best; none where all are alike, where neither is better, or where
    /// only one has a figure: it has nothing to be better than.
    pub fn best(&self, measure: Measure) -> Vec<usize> {
        let worth = |report: &Report| {
            let Some(estimate) = report.estimate(measure) else { return f64::INFINITY };
            match measure.better() {
                _ if estimate.mostly_never() => f64::INFINITY,
                Better::Less => estimate.mean,
                Better::More => -estimate.mean,
                Better::Neither => f64::INFINITY,
            }
        };
        let worths: Vec<f64> = self.reports.iter().map(worth).collect();
        let best = worths.iter().copied().fold(f64::INFINITY, f64::min);
        let places: Vec<usize> =
            worths.iter().enumerate().filter(|(_, worth)| **worth == best).map(|(place, _)| place).collect();
        let figures = self.reports.iter().filter(|report| report.estimate(measure).is_some()).count();
        if best.is_infinite() || places.len() == figures { Vec::new() } else { places }
    }

    /// What happened, in a sentence or two.
    pub fn sentence(&self) -> String {
        let mut sentence =
            if self.scenario.has_incident() { self.told_by_recovery() } else { self.told_by_completion() };
        for report in &self.reports {
            let why = match report.broken {
                None => continue,
                Some(Broken::Cancelled) => "was cancelled",
                Some(Broken::TooManyEvents) => "was broken off at the limit on events",
                Some(Broken::TimeStandsStill) => {
                    "was broken off: it retries without any wait what fails without any delay"
                }
            };
            sentence.push_str(&format!(" {} {why}; its figures are of what there was.", report.name));
        }
        sentence
    }

    fn told_by_recovery(&self) -> String {
        let lasted = self.scenario.trouble().map_or_else(String::new, |(start, end)| {
            format!("After {} of trouble ", text::seconds((end - start).as_secs_f64()))
        });
        let told = if self.reports.iter().any(|report| report.estimate(Measure::Recovery).is_some()) {
            Measure::Recovery
        } else {
            Measure::Drain
        };
        let (does, do_) =
            if told == Measure::Recovery { ("recovers", "recover") } else { ("is served", "are served") };
        // Those of one fate in one clause, in the order in which the fates first come.
        let mut fates: Vec<(Fate, Vec<&str>)> = Vec::new();
        for report in &self.reports {
            let Some(estimate) = report.estimate(told) else { continue };
            let fate = Fate::of(estimate);
            match fates.iter_mut().find(|(known, _)| *known == fate) {
                Some((_, names)) => names.push(&report.name),
                None => fates.push((fate, vec![&report.name])),
            }
        }
        let clauses = fates.iter().map(|(fate, names)| {
            let all = names.len() == self.reports.len() && names.len() > 2;
            let subject = if all { "all".to_owned() } else { listed(names) };
            let (does, stays) = if names.len() > 1 { (do_, "stay down") } else { (does, "stays down") };
            match fate {
                Fate::AtOnce => format!("{subject} {does} at once"),
                Fate::After(time) => format!("{subject} {does} after {time}"),
                Fate::Never => format!("{subject} {stays} as long as was simulated"),
                Fate::Sometimes(never, of) => format!("{subject} {stays} in {never} of {of} runs"),
            }
        });
        let mut sentence = lasted + &clauses.collect::<Vec<String>>().join("; ");
        if let Some((least, most)) = self.extremes(|report| report.mean(Measure::Success))
            && most.1 > least.1 + 0.005
        {
            sentence.push_str(&format!("; {} serves most calls ({})", most.0, share(most.1)));
        }
        if let Some((_, most)) = self.extremes(|report| report.mean(Measure::Amplification))
            && most.1 > 1.005
        {
            sentence.push_str(&format!(
                "; {} makes the most attempts, {} per call",
                most.0,
                text::number(most.1)
            ));
        }
        sentence + "."
    }

    fn told_by_completion(&self) -> String {
        let by = |measure| move |report: &Report| report.mean(measure);
        let Some((fewest, most)) = self.extremes(by(Measure::Attempts)) else {
            return "Nothing happened.".to_owned();
        };
        let mut sentence = if most.1 > fewest.1 * 1.005 {
            format!(
                "{} makes the fewest attempts ({}), {} {} times as many",
                fewest.0,
                text::number(fewest.1),
                most.0,
                text::number(most.1 / fewest.1)
            )
        } else {
            format!("All make about {} attempts", text::number(fewest.1))
        };
        if self.scenario.ends()
            && let Some((first, last)) = self.extremes(by(Measure::Completion))
        {
            let (first_time, last_time) = (text::seconds(first.1), text::seconds(last.1));
            if last.1 > first.1 * 1.005 {
                sentence.push_str(&format!(
                    "; {} is done first, after {first_time}, {} last, after {last_time}",
                    first.0, last.0
                ));
            } else {
                sentence.push_str(&format!("; all is done after {first_time}"));
            }
        }
        sentence + "."
    }

    /// The policies with the least and the most of something.
    fn extremes(&self, of: impl Fn(&Report) -> Option<f64>) -> Option<(Named<'_>, Named<'_>)> {
        let all = || self.reports.iter().filter_map(|report| Some((report.name.as_str(), of(report)?)));
        let least = all().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let most = all().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((least, most))
    }
}

/// What became of a policy after the trouble, as exactly as the sentence says it.
#[derive(PartialEq)]
enum Fate {
    AtOnce,
    After(String),
    Never,
    /// It stays down in so many of so many runs.
    Sometimes(u32, u32),
}

impl Fate {
    fn of(estimate: Estimate) -> Self {
        match (estimate.samples, estimate.never) {
            (_, 0) if estimate.mean == 0.0 => Self::AtOnce,
            (_, 0) => Self::After(text::seconds(estimate.mean)),
            (0, _) => Self::Never,
            (samples, never) => Self::Sometimes(never, samples + never),
        }
    }
}

/// `a`, `a and b`, `a, b and c`.
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [name] => (*name).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A policy's name and its figure.
type Named<'a> = (&'a str, f64);

fn cell(measure: Measure, estimate: Option<Estimate>) -> String {
    let Some(estimate) = estimate else { return "–".into() };
    let value = |number: f64| match measure.unit() {
        Unit::Count => text::number(number),
        Unit::Times => format!("{} ×", text::number(number)),
        Unit::Share if measure == Measure::Fairness || measure == Measure::Efficiency => {
            format!("{number:.4}")
        }
        Unit::Share => share(number),
        Unit::Seconds => text::seconds(number),
        Unit::PerSecond => format!("{} /s", text::number(number)),
    };
    match (estimate.samples, estimate.never) {
        (0, _) => "never".into(),
        (samples, never) if never > 0 => {
            format!("{} in {samples} of {}", value(estimate.mean), samples + never)
        }
        _ if estimate.error > 0.0 => {
            // The error in the unit of the mean.
            let relative = estimate.error / libm::fabs(estimate.mean);
            if relative < 0.0005 {
                value(estimate.mean)
            } else {
                format!("{} ± {:.1}%", value(estimate.mean), relative * 100.0)
            }
        }
        _ => value(estimate.mean),
    }
}

/// 99.98 %: as many digits as tell it from all and from nothing.
fn share(share: f64) -> String {
    let percent = share * 100.0;
    let distance = percent.min(100.0 - percent);
    match distance {
        d if d <= 0.0 => format!("{percent:.0}%"),
        d if d >= 1.0 => format!("{percent:.1}%"),
        d if d >= 0.01 => format!("{percent:.2}%"),
        _ => format!("{percent:.4}%"),
    }
}
