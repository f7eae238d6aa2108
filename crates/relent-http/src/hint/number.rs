//! Numbers in headers.

use std::time::Duration;

/// So many digits after the point are looked at one by one; of the rest it counts whether there is anything.
const PLACES: usize = 9;

/// A whole number of units.
pub(crate) fn whole(text: &str, unit: Duration) -> Option<Duration> {
    digits(text).then(|| nanoseconds(count(text).saturating_mul(unit.as_nanos())))
}

/// A number of units, with or without a point, rounded up to the nanosecond. Signs, exponents and the like are no numbers.
pub(crate) fn decimal(text: &str, unit: Duration) -> Option<Duration> {
    let Some((before, after)) = text.split_once('.') else { return whole(text, unit) };
    if !digits(before) || !digits(after) {
        return None;
    }
    let near = after.get(..PLACES).unwrap_or(after);
    let beyond = after.bytes().skip(PLACES).any(|digit| digit != b'0');
    let scale = (0..near.len()).fold(1, |scale: u128, _| scale * 10);
    let part = ((count(near) + u128::from(beyond)) * unit.as_nanos()).div_ceil(scale);
    Some(nanoseconds(count(before).saturating_mul(unit.as_nanos()).saturating_add(part)))
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Digits that are no number are too many.
fn count(digits: &str) -> u128 {
    digits.parse().unwrap_or(u128::MAX)
}

fn nanoseconds(nanos: u128) -> Duration {
    let part = u32::try_from(nanos % 1_000_000_000).unwrap_or_default();
    u64::try_from(nanos / 1_000_000_000).map_or(Duration::MAX, |seconds| Duration::new(seconds, part))
}
