//! What happens to one request.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::StatusCode;

/// What happens to one request: an answer, good or bad, or none.
///
/// ```
/// use std::time::Duration;
/// use relent_flaky::Step;
///
/// let busy = Step::status(429).header("retry-after", "1");
/// assert_eq!(busy, "429(retry-after=1)".parse()?);
/// let late = Step::status(200).delay(Duration::from_secs(2));
/// assert_eq!(late, "slow(2s)".parse()?);
/// # Ok::<(), relent_flaky::ScriptError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub(crate) what: What,
    pub(crate) delay: Duration,
    pub(crate) carried_out: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Answer(Answer),
    Reset,
    Close,
    Hang,
    Refuse(Duration),
    Raw { label: &'static str, bytes: Bytes },
    GoAway,
    ResetStream(StreamError),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: Vec<(String, Value)>,
    pub(crate) content: Content,
    pub(crate) chunked: bool,
    /// How long sending the body takes.
    pub(crate) over: Duration,
    pub(crate) ending: Ending,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The status and its reason, in words.
    Usual,
    Text(Bytes),
    /// So many bytes.
    Size(u64),
}

/// How the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Whole,
    /// The connection is closed after so many bytes.
    Cut(u64),
    /// After so many bytes nothing more comes.
    Stall(u64),
}

/// The value of a header, possibly relative to the time at which it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    /// A date, so many seconds from now.
    Date(DateForm, i64),
    /// Seconds since 1970, so many from now.
    Epoch(i64),
    /// A number of so many digits.
    Digits(u16),
}

/// The three forms of RFC 9110 §5.6.7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DateForm {
    Imf,
    Rfc850,
    Asctime,
}

/// An error code of HTTP/2 (RFC 9113 §7), for `RST_STREAM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum StreamError {
    /// `PROTOCOL_ERROR`
    Protocol,
    /// `INTERNAL_ERROR`
    Internal,
    /// `REFUSED_STREAM`: nothing was done, another try is safe (RFC 9113 §8.7).
    Refused,
    /// `CANCEL`
    Cancel,
    /// `ENHANCE_YOUR_CALM`
    EnhanceYourCalm,
}

/// Bytes that no client takes for HTTP.
const GARBAGE: &[u8] = b"\x00\xff\x16\x03 this is not HTTP \r\n\r\n\x80\x81\x82\r\n";

impl Step {
    /// An answer with this status. One below 200 or above 999 is taken for the nearest of these: what is below is no
    /// final answer.
    ///
    /// Statuses from 200 to 299 mean that the request was carried out, all others that it was not.
    pub fn status(status: u16) -> Self {
        let status = StatusCode::from_u16(status.clamp(200, 999)).unwrap_or(StatusCode::OK);
        let answer = Answer {
            status,
            headers: Vec::new(),
            content: Content::Usual,
            chunked: false,
            over: Duration::ZERO,
            ending: Ending::Whole,
        };
        Self { what: What::Answer(answer), delay: Duration::ZERO, carried_out: status.is_success() }
    }

    /// The connection is reset (TCP RST) once the request has been read.
    pub fn reset() -> Self {
        Self::fault(What::Reset)
    }

    /// The connection is closed once the request has been read, without an answer.
    pub fn close() -> Self {
        Self::fault(What::Close)
    }

    /// No answer ever comes. The connection stays until the client leaves.
    pub fn hang() -> Self {
        Self::fault(What::Hang)
    }

    /// Connections are refused for a while; this request's is reset.
    pub fn refuse(time: Duration) -> Self {
        Self::fault(What::Refuse(time))
    }

    /// Bytes that are no HTTP, then the connection is closed.
    pub fn garbage() -> Self {
        Self::fault(What::Raw { label: "garbage", bytes: Bytes::from_static(GARBAGE) })
    }

    /// These bytes as they are, then the connection is closed.
    pub fn raw(bytes: impl Into<Bytes>) -> Self {
        Self::fault(What::Raw { label: "raw", bytes: bytes.into() })
    }

    /// HTTP/2: a `GOAWAY` whose last stream is one before this request's; earlier requests are answered, then the
    /// connection is closed. HTTP/1: like [`close`](Self::close).
    pub fn go_away() -> Self {
        Self::fault(What::GoAway)
    }

    /// HTTP/2: `RST_STREAM` with this code. HTTP/1: like [`close`](Self::close).
    pub fn reset_stream(code: StreamError) -> Self {
        Self::fault(What::ResetStream(code))
    }

    fn fault(what: What) -> Self {
        Self { what, delay: Duration::ZERO, carried_out: false }
    }

    /// Waits before it happens. Default: 0.
    #[must_use]
    pub fn delay(mut self, time: Duration) -> Self {
        self.delay = time;
        self
    }

    /// The request is carried out although the client hears nothing good: the answer is lost, and a repetition is a
    /// duplicate unless it has a key.
    #[must_use]
    pub fn carried_out(mut self) -> Self {
        self.carried_out = true;
        self
    }

    /// Adds a header. One that HTTP does not allow is sent over HTTP/1 as it is and left out over HTTP/2. Without effect
    /// on what is no answer, as are all that follow.
    #[must_use]
    pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let header = (name.into(), Value::Text(value.into()));
        self.answer(|answer| answer.headers.push(header))
    }

    /// The body. Default: the status in words.
    #[must_use]
    pub fn body(self, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        self.answer(|answer| answer.content = Content::Text(body))
    }

    /// A body of so many bytes.
    #[must_use]
    pub fn size(self, bytes: u64) -> Self {
        self.answer(|answer| answer.content = Content::Size(bytes))
    }

    /// HTTP/1: sends the body in chunks, without saying its length first.
    #[must_use]
    pub fn chunked(self) -> Self {
        self.answer(|answer| answer.chunked = true)
    }

    /// Spreads the body over this time.
    #[must_use]
    pub fn over(self, time: Duration) -> Self {
        self.answer(|answer| answer.over = time)
    }

    /// Ends the connection (HTTP/2: the stream) after so many bytes of the body.
    #[must_use]
    pub fn cut(self, after: u64) -> Self {
        self.answer(|answer| answer.ending = Ending::Cut(after))
    }

    /// Sends so many bytes of the body and then nothing more.
    #[must_use]
    pub fn stall(self, after: u64) -> Self {
        self.answer(|answer| answer.ending = Ending::Stall(after))
    }

    pub(crate) fn answer(mut self, change: impl FnOnce(&mut Answer)) -> Self {
        if let What::Answer(answer) = &mut self.what {
            change(answer);
        }
        self
    }

    /// Whether the client gets a whole answer from 200 to 399.
    pub(crate) fn is_good(&self) -> bool {
        match &self.what {
            What::Answer(answer) => {
                (200..400).contains(&answer.status.as_u16()) && answer.ending == Ending::Whole
            }
            _ => false,
        }
    }

    /// How the body ends, if it is an answer.
    pub(crate) fn ending(&self) -> Option<Ending> {
        match &self.what {
            What::Answer(answer) => Some(answer.ending),
            _ => None,
        }
    }

    /// The status that is sent.
    pub(crate) fn status_sent(&self) -> Option<StatusCode> {
        match &self.what {
            What::Answer(answer) => Some(answer.status),
            _ => None,
        }
    }

    /// What it is called in counters: the status, or the word; what becomes of the body follows a `+`.
    pub(crate) fn label(&self) -> String {
        match &self.what {
            What::Answer(answer) => {
                let ending = match answer.ending {
                    Ending::Whole => "",
                    Ending::Cut(_) => "+cut",
                    Ending::Stall(_) => "+stall",
                };
                format!("{}{ending}", answer.status.as_u16())
            }
            What::Reset => "reset".to_owned(),
            What::Close => "close".to_owned(),
            What::Hang => "hang".to_owned(),
            What::Refuse(_) => "refuse".to_owned(),
            What::Raw { label, .. } => (*label).to_owned(),
            What::GoAway => "goaway".to_owned(),
            What::ResetStream(code) => format!("rst-stream+{}", code.as_str()),
        }
    }
}

impl Answer {
    pub(crate) fn body(&self) -> Content {
        match &self.content {
            _ if matches!(self.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) => {
                Content::Text(Bytes::new())
            }
            Content::Usual => {
                let reason = self.status.canonical_reason().unwrap_or("(a status without a name)");
                Content::Text(format!("{} {reason}\n", self.status.as_u16()).into())
            }
            given => given.clone(),
        }
    }
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Usual => 0,
            Self::Text(text) => text.len() as u64,
            Self::Size(size) => *size,
        }
    }

    /// At most `most` bytes from `at` on; none at the end.
    pub(crate) fn piece(&self, at: u64, most: u64) -> Bytes {
        /// What a body of a given size is made of. A piece is never longer, so that the size costs no memory.
        const FILLING: &[u8] = &[b'x'; 16 * 1024];
        let left = self.len().saturating_sub(at).min(most).min(FILLING.len() as u64);
        match self {
            Self::Text(text) => {
                // Both lie in the text.
                text.slice(at.min(text.len() as u64) as usize..(at + left).min(text.len() as u64) as usize)
            }
            _ => Bytes::from_static(FILLING.get(..left as usize).unwrap_or_default()),
        }
    }
}

impl Value {
    /// As it is sent at `now`.
    pub(crate) fn at(&self, now: SystemTime) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Date(form, offset) => form.format(shifted(now, *offset)),
            Self::Epoch(offset) => {
                let since = shifted(now, *offset).duration_since(SystemTime::UNIX_EPOCH);
                since.unwrap_or_default().as_secs().to_string()
            }
            Self::Digits(count) => "9".repeat(usize::from(*count)),
        }
    }
}

/// Between 1970 and 9999, which is what the date forms can tell.
fn shifted(now: SystemTime, offset: i64) -> SystemTime {
    /// The last second of 9999.
    const LAST: u64 = 253_402_300_799;
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    SystemTime::UNIX_EPOCH + Duration::from_secs(now.saturating_add_signed(offset).min(LAST))
}

impl DateForm {
    fn format(self, time: SystemTime) -> String {
        const DAYS: [&str; 7] =
            ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
        // "Sun, 06 Nov 1994 08:49:37 GMT", the parts of which the obsolete forms put in another order.
        let imf = httpdate::fmt_http_date(time);
        let mut parts = imf.split([',', ' ']).filter(|part| !part.is_empty());
        let mut next = || parts.next().unwrap_or_default();
        let (weekday, day, month, year, clock) = (next(), next(), next(), next(), next());
        match self {
            Self::Imf => imf,
            Self::Rfc850 => {
                let weekday = DAYS.into_iter().find(|name| name.starts_with(weekday)).unwrap_or_default();
                let year = year.get(2..).unwrap_or_default();
                format!("{weekday}, {day}-{month}-{year} {clock} GMT")
            }
            Self::Asctime => {
                let day = day.trim_start_matches('0');
                format!("{weekday} {month} {day:>2} {clock} {year}")
            }
        }
    }
}

impl StreamError {
    pub(crate) const ALL: [Self; 5] =
        [Self::Protocol, Self::Internal, Self::Refused, Self::Cancel, Self::EnhanceYourCalm];

    /// As scripts have it: `"refused_stream"`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Protocol => "protocol_error",
            Self::Internal => "internal_error",
            Self::Refused => "refused_stream",
            Self::Cancel => "cancel",
            Self::EnhanceYourCalm => "enhance_your_calm",
        }
    }

    pub(crate) fn reason(self) -> h2::Reason {
        match self {
            Self::Protocol => h2::Reason::PROTOCOL_ERROR,
            Self::Internal => h2::Reason::INTERNAL_ERROR,
            Self::Refused => h2::Reason::REFUSED_STREAM,
            Self::Cancel => h2::Reason::CANCEL,
            Self::EnhanceYourCalm => h2::Reason::ENHANCE_YOUR_CALM,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 9110 §5.6.7.
    #[test]
    fn dates_have_three_forms() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777 - 60);
        let forms = [
            (DateForm::Imf, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (DateForm::Rfc850, "Sunday, 06-Nov-94 08:49:37 GMT"),
            (DateForm::Asctime, "Sun Nov  6 08:49:37 1994"),
        ];
        for (form, text) in forms {
            assert_eq!(Value::Date(form, 60).at(now), text);
        }
        assert_eq!(Value::Epoch(60).at(now), "784111777");
    }

    #[test]
    fn offsets_of_any_size_are_dates() {
        for offset in [i64::MIN, i64::MAX] {
            for form in [DateForm::Imf, DateForm::Rfc850, DateForm::Asctime] {
                assert!(!Value::Date(form, offset).at(SystemTime::now()).is_empty());
            }
        }
        assert_eq!(Value::Epoch(i64::MIN).at(SystemTime::now()), "0");
    }

    #[test]
    fn pieces_make_up_the_body() {
        for content in [Content::Text(Bytes::from_static(b"hello world")), Content::Size(40_000)] {
            let mut at = 0;
            loop {
                let piece = content.piece(at, 20_000);
                at += piece.len() as u64;
                if piece.is_empty() {
                    break;
                }
            }
            assert_eq!(at, content.len());
            assert!(content.piece(u64::MAX, 1).is_empty());
        }
    }
}
