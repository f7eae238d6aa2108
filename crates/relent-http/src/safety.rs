//! Whether a request may, and can, be sent again.
//!
//! ```
//! use bytes::Bytes;
//! use http::{HeaderMap, HeaderValue, Method};
//! use http_body::SizeHint;
//! use relent_core::Repeat;
//! use relent_http::safety::{IDEMPOTENCY_KEY, Kept, LIMIT, of_request};
//!
//! let mut headers = HeaderMap::new();
//! assert_eq!(of_request(&Method::POST, &headers, None), Repeat::NotIdempotent);
//! headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_static("5b1fd6c0"));
//! assert_eq!(of_request(&Method::POST, &headers, None), Repeat::Safe);
//!
//! // A body that is streamed: what was sent is kept, up to a limit.
//! let mut kept = Kept::new(&SizeHint::default(), LIMIT);
//! kept.data(&Bytes::from_static(b"hello="));
//! kept.data(&Bytes::from_static(b"world"));
//! assert_eq!(kept.repeat(), Repeat::Safe);
//! assert_eq!(kept.again().map(|chunks| chunks.concat()), Some(b"hello=world".to_vec()));
//! ```

use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderMap, Method};
use http_body::SizeHint;
use relent_core::Repeat;

/// The header that lets a server do the thing once, however often it is asked (draft-ietf-httpapi-idempotency-key-header):
/// one key for all attempts of a call, hedges included.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// How much of a body is kept unless somebody says otherwise, in bytes: 64 KiB, as Linkerd does.
pub const LIMIT: u64 = 65_536;

/// Whether sending a request twice does no more than sending it once. `stated` is what the caller says, and comes first;
/// then a key, unless it is empty; then the method: GET, HEAD, OPTIONS, TRACE, PUT, DELETE (RFC 9110 §9.2.2) and QUERY.
pub fn of_request(method: &Method, headers: &HeaderMap, stated: Option<bool>) -> Repeat {
    let keyed = || headers.get(IDEMPOTENCY_KEY).is_some_and(|key| !key.as_bytes().trim_ascii().is_empty());
    match stated.unwrap_or_else(|| keyed() || method.is_idempotent()) {
        true => Repeat::Safe,
        false => Repeat::NotIdempotent,
    }
}

/// Both questions: whether the request may be sent again, and whether its body can. What cannot be sent again is the
/// stronger reason: it holds even where nothing reached the server.
pub const fn both(request: Repeat, body: Repeat) -> Repeat {
    match body {
        Repeat::Safe => request,
        other => other,
    }
}

/// What is kept of a body while it is sent, so that it can be sent again.
///
/// A body that is larger than the limit is sent all the same; only the retry is lost. That is known as soon as the first
/// attempt has ended, before any wait: from then on [`repeat`](Self::repeat) is [`Repeat::BodyNotReplayable`]. Of a body
/// whose size says beforehand that it is too large, nothing is kept. As long as nothing was read of it, any body can be
/// sent again, as it can where no more was read than is kept: the rest comes from the body itself.
///
/// Chunks are shared, not copied.
#[derive(Clone, Debug)]
pub struct Kept {
    room: u64,
    chunks: Vec<Bytes>,
    trailers: Option<HeaderMap>,
    lost: bool,
}

impl Kept {
    /// Nothing yet, of a body of this size, where up to `limit` bytes may be kept. With 0 a body can be sent once.
    pub fn new(size: &SizeHint, limit: u64) -> Self {
        let room = if size.lower() > limit { 0 } else { limit };
        Self { room, chunks: Vec::new(), trailers: None, lost: false }
    }

    /// Takes in what is being sent for the first time.
    pub fn data(&mut self, chunk: &Bytes) {
        if self.lost || chunk.is_empty() {
            return;
        }
        match u64::try_from(chunk.len()).ok().and_then(|length| self.room.checked_sub(length)) {
            Some(room) => {
                self.room = room;
                self.chunks.push(chunk.clone());
            }
            None => {
                self.lost = true;
                self.chunks = Vec::new();
                self.trailers = None;
            }
        }
    }

    /// Takes in the trailers. They do not count against the limit.
    pub fn trailers(&mut self, trailers: &HeaderMap) {
        if !self.lost {
            self.trailers = Some(trailers.clone());
        }
    }

    /// Whether all that was sent can be sent again.
    pub const fn repeat(&self) -> Repeat {
        if self.lost { Repeat::BodyNotReplayable } else { Repeat::Safe }
    }

    /// What was sent, in order, unless it was too much.
    pub fn again(&self) -> Option<&[Bytes]> {
        (!self.lost).then_some(self.chunks.as_slice())
    }

    /// The trailers that were sent.
    pub const fn trailers_again(&self) -> Option<&HeaderMap> {
        self.trailers.as_ref()
    }
}
