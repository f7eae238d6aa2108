//! HTTP/1.1: hyper serves what is in order; what is not is written on the wire.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::{Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Notify;
use tokio::time::{Sleep, sleep};

use crate::server::{HEAD_TIMEOUT, MAX_HEAD, Place, Reply, Server, Stopped};
use crate::step::{Answer, Ending, Step, What};
use crate::wire::{End, Line, Order, Sending, Stream};

pub(crate) async fn serve<S: Stream>(
    line: Line<S>,
    server: Arc<Server>,
    peer: SocketAddr,
    mut stopped: Stopped,
) {
    let desk = Arc::new(Desk::default());
    let service = service_fn(|request| respond(&server, &desk, peer, request));
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(MAX_HEAD);
    let mut connection = Box::pin(builder.serve_connection(TokioIo::new(line.clone()), service));
    let order = loop {
        tokio::select! {
            biased;
            // What it cannot serve it answers or drops; there is nobody to tell.
            _ = &mut connection => return,
            () = desk.ordered.notified() => break desk.take(),
            () = stopped.wait() => connection.as_mut().graceful_shutdown(),
        }
    };
    drop(connection);
    if let Some((order, _place)) = order {
        tokio::select! {
            _ = order.carry_out(line) => {}
            () = stopped.wait() => {}
        }
    }
}

/// Where a request puts what is to be done to its connection.
#[derive(Default)]
struct Desk {
    order: Mutex<Option<(Order, Option<Place>)>>,
    ordered: Notify,
}

impl Desk {
    /// The request occupies its place until the order is carried out.
    fn put(&self, order: Order, place: Option<Place>) {
        *self.order.lock().unwrap_or_else(PoisonError::into_inner) = Some((order, place));
        self.ordered.notify_one();
    }

    fn take(&self) -> Option<(Order, Option<Place>)> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

async fn respond(
    server: &Arc<Server>,
    desk: &Desk,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> Result<Response<Paced>, Infallible> {
    let is_head = request.method() == Method::HEAD;
    let (parts, body) = request.into_parts();
    match server.handle(&parts, body, peer).await {
        Reply::Admin(response) => return Ok(response.map(Paced::of)),
        Reply::Gone => desk.put(End::Close.into(), None),
        Reply::Step(step, place) => match order(&step, is_head) {
            Some(order) => desk.put(order, Some(place)),
            None => match plain(&step, place) {
                Some(response) => return Ok(response),
                None => desk.put(End::Close.into(), None),
            },
        },
    }
    // The connection is taken from here.
    pending().await
}

/// What is to be done on the wire, if anything.
fn order(step: &Step, is_head: bool) -> Option<Order> {
    Some(match &step.what {
        What::Answer(answer) if is_plain(answer) => return None,
        What::Answer(answer) => written(answer, is_head),
        What::Reset | What::Refuse(_) => End::Reset.into(),
        What::Close | What::GoAway | What::ResetStream(_) => End::Close.into(),
        What::Hang => End::Hang.into(),
        What::Raw { bytes, .. } => Order::raw(bytes),
    })
}

/// Whether hyper would send exactly this.
fn is_plain(answer: &Answer) -> bool {
    let now = SystemTime::now();
    answer.ending == Ending::Whole
        && answer.headers.iter().all(|(name, value)| {
            let name = HeaderName::try_from(name);
            HeaderValue::try_from(value.at(now)).is_ok()
                && name.is_ok_and(|name| name != CONTENT_LENGTH && name != TRANSFER_ENCODING)
        })
}

fn plain(step: &Step, place: Place) -> Option<Response<Paced>> {
    let What::Answer(answer) = &step.what else { return None };
    let now = SystemTime::now();
    let mut response = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        response = response.header(name, value.at(now));
    }
    let body = Paced {
        sending: Some(Sending::new(answer)),
        length_known: !answer.chunked,
        pause: None,
        _place: Some(place),
    };
    response.body(body).ok()
}

/// The answer as bytes, with all that is wrong with it.
fn written(answer: &Answer, is_head: bool) -> Order {
    let now = SystemTime::now();
    let body = Sending::new(answer);
    let reason = answer.status.canonical_reason().unwrap_or_default();
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", answer.status.as_u16());
    let given = |wanted: HeaderName| {
        answer.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted.as_str()))
    };
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {}\r\n", value.at(now)));
    }
    if !given(DATE) {
        head.push_str(&format!("date: {}\r\n", httpdate::fmt_http_date(now)));
    }
    if !given(CONNECTION) {
        head.push_str("connection: close\r\n");
    }
    let length = body.length();
    let chunked = answer.chunked && !given(TRANSFER_ENCODING) && !given(CONTENT_LENGTH);
    if chunked {
        // One chunk, so that a cut lies within it.
        head.push_str(&format!("transfer-encoding: chunked\r\n\r\n{length:x}\r\n"));
    } else if given(CONTENT_LENGTH) || given(TRANSFER_ENCODING) {
        head.push_str("\r\n");
    } else {
        head.push_str(&format!("content-length: {length}\r\n\r\n"));
    }
    let end = if matches!(answer.ending, Ending::Stall(_)) { End::Hang } else { End::Close };
    // Headers may hold letters up to U+00FF, which stand for bytes.
    let bytes = head.chars().map(|letter| u8::try_from(u32::from(letter)).unwrap_or(b'?')).collect();
    Order { bytes, body: (!is_head).then_some(body), end }
}

/// A body in pieces, with pauses between them.
pub(crate) struct Paced {
    sending: Option<Sending>,
    length_known: bool,
    pause: Option<Pin<Box<Sleep>>>,
    /// Occupied until it is sent.
    _place: Option<Place>,
}

impl Paced {
    fn of(bytes: Bytes) -> Self {
        let step = Step::status(200).body(bytes);
        let sending = match &step.what {
            What::Answer(answer) => Some(Sending::new(answer)),
            _ => None,
        };
        Self { sending, length_known: true, pause: None, _place: None }
    }
}

impl Body for Paced {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        let Some(sending) = &mut this.sending else { return Poll::Ready(None) };
        if sending.left() > 0 && !sending.pause().is_zero() {
            let pause = this.pause.get_or_insert_with(|| Box::pin(sleep(sending.pause())));
            ready!(pause.as_mut().poll(context));
            this.pause = None;
        }
        Poll::Ready(sending.next_now().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.sending.as_ref().is_none_or(|sending| sending.left() == 0)
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.sending.as_ref().map_or(0, Sending::left);
        if self.length_known { SizeHint::with_exact(left) } else { SizeHint::default() }
    }
}
