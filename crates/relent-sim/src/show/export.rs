//! Results for other programs: CSV and JSON.

use std::fmt::Write as _;

use crate::measure::Measure;
use crate::run::Comparison;
use crate::show::Column;

impl Comparison {
    /// The figures as CSV: `policy,measure,mean,error,samples,never`.
    pub fn csv(&self) -> String {
        let mut out = String::from("policy,measure,mean,error,samples,never\n");
        for report in &self.reports {
            for measure in Measure::ALL {
                let Some(estimate) = report.estimate(measure) else { continue };
                // Writing to a string does not fail.
                let _ = writeln!(
                    out,
                    "{},{},{},{},{},{}",
                    quoted(&report.name),
                    measure.as_str(),
                    if estimate.samples > 0 { estimate.mean.to_string() } else { String::new() },
                    estimate.error,
                    estimate.samples,
                    estimate.never
                );
            }
        }
        out
    }

    /// The series as CSV: `policy,time_s,calls,attempts,succeeded,failed,open`, counts per bin, the mean of the
    /// replications; `time_s` is where the bin begins.
    pub fn series_csv(&self) -> String {
        let mut out = String::from("policy,time_s,calls,attempts,succeeded,failed,open\n");
        let bin = self.scenario.bin.as_secs_f64();
        for report in &self.reports {
            let replications = f64::from(report.replications.max(1));
            for index in 0..report.series.len() {
                let _ = write!(out, "{},{}", quoted(&report.name), index as f64 * bin);
                for column in Column::ALL {
                    let count = column.of(report).get(index).copied().unwrap_or(0);
                    let _ = write!(out, ",{}", count as f64 / replications);
                }
                out.push('\n');
            }
        }
        out
    }

    /// Everything as one JSON object; `v` is the version of its form.
    pub fn json(&self) -> String {
        let mut out = String::from("{\"v\":1,\"scenario\":");
        string(&mut out, &self.scenario.name);
        out.push_str(",\"description\":");
        string(&mut out, &self.scenario.description);
        let _ = write!(out, ",\"seed\":{},\"bin_s\":{}", self.seed, self.scenario.bin.as_secs_f64());
        out.push_str(",\"sentence\":");
        string(&mut out, &self.sentence());
        out.push_str(",\"policies\":[");
        for (index, report) in self.reports.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str("{\"name\":");
            string(&mut out, &report.name);
            let tally = &report.tally;
            let _ = write!(
                out,
                ",\"replications\":{},\"broken_off\":{},\"events\":{},\"waits_checksum\":\"{:016x}\",\"unfinished\":{}",
                report.replications,
                report.broken.is_some(),
                tally.events,
                tally.waits,
                tally.unfinished
            );
            out.push_str(",\"measures\":{");
            let known =
                Measure::ALL.into_iter().filter_map(|measure| Some((measure, report.estimate(measure)?)));
            for (index, (measure, estimate)) in known.enumerate() {
                let comma = if index > 0 { "," } else { "" };
                let mean = if estimate.samples > 0 { number(estimate.mean) } else { "null".into() };
                let _ = write!(
                    out,
                    "{comma}\"{}\":{{\"mean\":{mean},\"error\":{},\"samples\":{},\"never\":{}}}",
                    measure.as_str(),
                    number(estimate.error),
                    estimate.samples,
                    estimate.never
                );
            }
            out.push_str("},\"series\":{");
            for (index, column) in Column::ALL.into_iter().enumerate() {
                let comma = if index > 0 { "," } else { "" };
                let counts: Vec<String> = column.of(report).iter().map(u64::to_string).collect();
                let _ = write!(out, "{comma}\"{}\":[{}]", column.word(), counts.join(","));
            }
            out.push_str("}}");
        }
        out.push_str("]}\n");
        out
    }
}

fn number(number: f64) -> String {
    if number.is_finite() { number.to_string() } else { "null".into() }
}

fn string(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", control as u32);
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
}

/// A field of CSV (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
