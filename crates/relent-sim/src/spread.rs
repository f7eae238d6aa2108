//! A distribution of times: exact while there are few, an HDR histogram from then on.

use hdrhistogram::Histogram;

/// Times of one replication. A replication of a hundred calls pays for a hundred numbers, not for a histogram.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spread {
    few: Vec<u64>,
    many: Option<Histogram<u64>>,
}

/// Up to here times are kept one by one.
const FEW: usize = 4096;

impl Spread {
    #[inline]
    pub(crate) fn record(&mut self, nanos: u64) {
        match &mut self.many {
            Some(histogram) => histogram.saturating_record(micros(nanos)),
            None if self.few.len() < FEW => self.few.push(nanos),
            None => self.overflow(nanos),
        }
    }

    #[cold]
    fn overflow(&mut self, nanos: u64) {
        let mut histogram = histogram();
        for nanos in self.few.drain(..) {
            histogram.saturating_record(micros(nanos));
        }
        histogram.saturating_record(micros(nanos));
        self.many = Some(histogram);
    }

    /// The times in seconds that these parts of all stay below or at; `None` without any.
    pub(crate) fn quantiles<const N: usize>(&mut self, parts: [f64; N]) -> Option<[f64; N]> {
        if let Some(histogram) = &self.many {
            return Some(parts.map(|part| histogram.value_at_quantile(part) as f64 / 1e6));
        }
        self.few.sort_unstable();
        let last = self.few.len().checked_sub(1)?;
        Some(parts.map(|part| {
            let rank = libm::ceil(part * self.few.len() as f64) as usize;
            self.few.get(rank.saturating_sub(1).min(last)).map_or(0.0, |nanos| *nanos as f64 / 1e9)
        }))
    }

    pub(crate) fn pour_into(&mut self, pool: &mut Histogram<u64>) {
        for nanos in self.few.drain(..) {
            pool.saturating_record(micros(nanos));
        }
        if let Some(histogram) = self.many.take() {
            // Of the same bounds: adding it cannot fail.
            let _ = pool.add(&histogram);
        }
    }
}

const fn micros(nanos: u64) -> u64 {
    nanos / 1000
}

/// From a microsecond to twelve days, to three digits: 250 KB.
pub(crate) fn histogram() -> Histogram<u64> {
    match Histogram::new_with_bounds(1, 1 << 40, 3) {
        Ok(histogram) => histogram,
        Err(_) => unreachable!("these bounds are within what the histogram takes"),
    }
}
