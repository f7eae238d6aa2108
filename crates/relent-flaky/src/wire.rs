//! The connection below HTTP, where what HTTP forbids is done.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::step::{Answer, Content, Ending};

/// What a connection needs to be.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// Makes its end a reset.
    fn reset_at_end(&self);
}

impl Stream for TcpStream {
    fn reset_at_end(&self) {
        // If the system refuses, the connection ends in the ordinary way, which is a failure, too.
        let _ = self.set_zero_linger();
    }
}

#[cfg(feature = "tls")]
impl Stream for tokio_rustls::server::TlsStream<TcpStream> {
    fn reset_at_end(&self) {
        self.get_ref().0.reset_at_end();
    }
}

/// A connection that HTTP's implementation works on, and that can be taken from it.
#[derive(Debug)]
pub(crate) struct Line<S>(Arc<Mutex<Inner<S>>>);

#[derive(Debug)]
struct Inner<S> {
    stream: S,
    /// What was read to tell the protocol, and is read again.
    begun: Bytes,
    frames: Frames,
    /// A frame of our own, to be sent between two others.
    slipped_in: Bytes,
}

/// The first bytes of an HTTP/2 connection (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

impl<S> Clone for Line<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Stream> Line<S> {
    /// Looks whether the client begins with the preface of HTTP/2.
    pub(crate) async fn open(mut stream: S) -> io::Result<(Self, bool)> {
        let mut begun = Vec::with_capacity(PREFACE.len());
        while begun.len() < PREFACE.len() && PREFACE.starts_with(&begun) {
            let mut rest = (&mut stream).take((PREFACE.len() - begun.len()) as u64);
            if rest.read_buf(&mut begun).await? == 0 {
                break;
            }
        }
        let is_http2 = begun == PREFACE;
        let inner =
            Inner { stream, begun: begun.into(), frames: Frames::default(), slipped_in: Bytes::new() };
        Ok((Self(Arc::new(Mutex::new(inner))), is_http2))
    }

    /// Sends a frame of HTTP/2 as soon as the one that is being sent is complete.
    pub(crate) fn slip_in(&self, frame: Bytes) {
        self.lock().slipped_in = frame;
    }

    fn lock(&self) -> MutexGuard<'_, Inner<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Stream> Inner<S> {
    /// Sends what is to be slipped in, if this is the place.
    fn poll_slip_in(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.frames.is_between() && !self.slipped_in.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.slipped_in))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.slipped_in.advance(written);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Stream> AsyncRead for Line<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut inner = self.lock();
        if inner.begun.is_empty() {
            return Pin::new(&mut inner.stream).poll_read(context, buffer);
        }
        let length = inner.begun.len().min(buffer.remaining());
        buffer.put_slice(&inner.begun.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl<S: Stream> AsyncWrite for Line<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut inner = self.lock();
        ready!(inner.poll_slip_in(context))?;
        let written = ready!(Pin::new(&mut inner.stream).poll_write(context, bytes))?;
        inner.frames.pass(bytes.get(..written).unwrap_or(bytes));
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.lock();
        ready!(inner.poll_slip_in(context))?;
        Pin::new(&mut inner.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.lock().stream).poll_shutdown(context)
    }
}

/// Where in a stream of HTTP/2 frames the next byte lies (RFC 9113 §4.1).
#[derive(Debug, Default)]
struct Frames {
    /// How many bytes of the header have passed, and its length field.
    header: usize,
    length: usize,
    /// How much of the payload has not.
    payload: usize,
}

impl Frames {
    const HEADER: usize = 9;

    fn pass(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            if self.payload > 0 {
                let skipped = self.payload.min(bytes.len());
                self.payload -= skipped;
                bytes = bytes.get(skipped..).unwrap_or_default();
                continue;
            }
            if self.header < 3 {
                self.length = self.length << 8 | usize::from(*first);
            }
            self.header += 1;
            bytes = rest;
            if self.header == Self::HEADER {
                *self = Self { payload: self.length, ..Self::default() };
            }
        }
    }

    fn is_between(&self) -> bool {
        self.header == 0 && self.payload == 0
    }
}

/// What is done to a connection instead of an answer.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) bytes: Vec<u8>,
    pub(crate) body: Option<Sending>,
    pub(crate) end: End,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// TCP's FIN.
    Close,
    /// TCP's RST.
    Reset,
    /// When the client leaves.
    Hang,
}

impl From<End> for Order {
    fn from(end: End) -> Self {
        Self { bytes: Vec::new(), body: None, end }
    }
}

impl Order {
    pub(crate) fn raw(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), body: None, end: End::Close }
    }

    /// Errors mean that the client has left, which ends it, too.
    pub(crate) async fn carry_out<S: Stream>(self, mut line: Line<S>) -> io::Result<()> {
        line.write_all(&self.bytes).await?;
        if let Some(mut body) = self.body {
            while let Some(piece) = body.next().await {
                line.write_all(&piece).await?;
            }
        }
        match self.end {
            End::Close => linger(line).await,
            End::Reset => {
                line.lock().stream.reset_at_end();
                Ok(())
            }
            End::Hang => {
                line.flush().await?;
                discard(&mut line, u64::MAX).await
            }
        }
    }
}

/// Closes a connection so that the client can read what it was sent: the system answers bytes that nobody has read with
/// a reset, which takes everything back.
pub(crate) async fn linger<S: AsyncRead + AsyncWrite + Unpin>(mut line: S) -> io::Result<()> {
    const AT_MOST: Duration = Duration::from_secs(1);
    line.shutdown().await?;
    timeout(AT_MOST, discard(&mut line, 1 << 20)).await.unwrap_or(Ok(()))
}

async fn discard<S: AsyncRead + Unpin>(line: &mut S, most: u64) -> io::Result<()> {
    tokio::io::copy(&mut line.take(most), &mut tokio::io::sink()).await.map(drop)
}

/// A body on its way, piece by piece.
#[derive(Debug)]
pub(crate) struct Sending {
    content: Content,
    at: u64,
    until: u64,
    piece: u64,
    pause: Duration,
}

impl Sending {
    /// Into how many pieces a slow body is cut at least, if it has so many bytes.
    const PIECES: u64 = 20;
    const LONGEST: u64 = 16 * 1024;

    pub(crate) fn new(answer: &Answer) -> Self {
        let content = answer.body();
        let length = content.len();
        let until = match answer.ending {
            Ending::Whole => length,
            Ending::Cut(after) | Ending::Stall(after) => after.min(length),
        };
        let piece = match answer.over {
            Duration::ZERO => Self::LONGEST,
            _ => length.div_ceil(Self::PIECES).clamp(1, Self::LONGEST),
        };
        let pieces = u32::try_from(length.div_ceil(piece)).unwrap_or(u32::MAX).max(1);
        Self { content, at: 0, until, piece, pause: answer.over / pieces }
    }

    /// All of the body, also what is not sent.
    pub(crate) fn length(&self) -> u64 {
        self.content.len()
    }

    /// Whether any of it is sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.until == 0
    }

    /// Whether pieces are waited for.
    pub(crate) fn pause(&self) -> Duration {
        self.pause
    }

    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        if self.at < self.until && !self.pause.is_zero() {
            sleep(self.pause).await;
        }
        self.next_now()
    }

    pub(crate) fn next_now(&mut self) -> Option<Bytes> {
        let piece = self.content.piece(self.at, self.piece.min(self.until.saturating_sub(self.at)));
        self.at += piece.len() as u64;
        (!piece.is_empty()).then_some(piece)
    }

    pub(crate) fn left(&self) -> u64 {
        self.until.saturating_sub(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{Step, What};

    #[test]
    fn frames_are_told_apart_however_they_are_cut() {
        let mut stream = Vec::new();
        let mut borders = vec![0];
        for length in [0usize, 1, 9, 300, 0] {
            stream.extend_from_slice(&[0, (length >> 8) as u8, length as u8, 0, 0, 0, 0, 0, 1]);
            stream.extend(std::iter::repeat_n(0xaa, length));
            borders.push(stream.len());
        }
        for step in 1..20 {
            let mut frames = Frames::default();
            let mut at = 0;
            for part in stream.chunks(step) {
                assert_eq!(frames.is_between(), borders.contains(&at), "{at} by {step}");
                frames.pass(part);
                at += part.len();
            }
            assert!(frames.is_between());
        }
    }

    fn pieces(step: Step) -> (Vec<usize>, Duration) {
        let What::Answer(answer) = &step.what else { panic!("no answer") };
        let mut sending = Sending::new(answer);
        let pause = sending.pause();
        (std::iter::from_fn(|| sending.next_now().map(|piece| piece.len())).collect(), pause)
    }

    #[test]
    fn bodies_are_spread_and_cut() {
        let second = Duration::from_secs(1);
        assert_eq!(pieces(Step::status(200).size(40_000)).0, [16_384, 16_384, 7_232]);
        let (slow, pause) = pieces(Step::status(200).size(100).over(second));
        assert_eq!((slow.len(), slow[0], pause), (20, 5, second / 20));
        let (few, pause) = pieces(Step::status(200).body("abc").over(second));
        assert_eq!((few, pause), (vec![1; 3], second / 3));
        assert_eq!(pieces(Step::status(200).size(100).cut(7)).0, [7]);
        assert_eq!(pieces(Step::status(200).size(5).stall(7)).0, [5]);
        assert!(pieces(Step::status(204)).0.is_empty());
    }
}
