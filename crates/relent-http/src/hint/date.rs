//! HTTP's dates (RFC 9110 §5.6.7).

use std::time::{Duration, UNIX_EPOCH};

const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// 50 years, thirteen of them leap years.
const HALF_A_CENTURY: Duration = Duration::from_secs(18_263 * 86_400);

/// A mean year.
const YEAR: u64 = 31_556_952;

/// The time since 1970 began that a date in any of the three forms says. None where its weekday is another, or where it
/// lies before 1970.
pub(crate) fn parse(text: &str, now: Duration) -> Option<Duration> {
    match TwoDigits::split(text) {
        Some(date) => date.time(now),
        None => full(text),
    }
}

fn full(text: &str) -> Option<Duration> {
    httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`.
struct TwoDigits<'a> {
    weekday: &'a str,
    day: &'a str,
    month: &'a str,
    year: u64,
    clock: &'a str,
}

impl<'a> TwoDigits<'a> {
    fn split(text: &'a str) -> Option<Self> {
        let (weekday, rest) = text.split_once(", ")?;
        let (date, clock) = rest.split_once(' ')?;
        let (day, date) = date.split_once('-')?;
        let (month, year) = date.split_once('-')?;
        let two = year.len() == 2 && year.bytes().all(|byte| byte.is_ascii_digit());
        Some(Self { weekday, day, month, year: year.parse().ok().filter(|_| two)?, clock })
    }

    /// Of the years that end so, the latest in which the date is no more than 50 years ahead.
    fn time(&self, now: Duration) -> Option<Duration> {
        let latest = now.saturating_add(HALF_A_CENTURY);
        let about = 1971 + latest.as_secs() / YEAR;
        let newest = (about - about % 100) + self.year;
        let in_order = [newest, newest.checked_sub(100)?, newest.checked_sub(200)?];
        let (weekday, time) =
            in_order.into_iter().filter_map(|year| self.within(year)).find(|(_, time)| *time <= latest)?;
        (weekday == self.weekday).then_some(time)
    }

    /// The weekday and the time of the date in a year. The weekday that is written says nothing about the year.
    fn within(&self, year: u64) -> Option<(&'static str, Duration)> {
        WEEKDAYS.into_iter().find_map(|weekday| {
            let short = weekday.get(..3)?;
            let date = format!("{short}, {} {} {year:04} {}", self.day, self.month, self.clock);
            Some((weekday, full(&date)?))
        })
    }
}
