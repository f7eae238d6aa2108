//! HTTP/2 with prior knowledge.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use bytes::{BufMut, Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::{Method, Request, Response};
use http_body::{Body, Frame};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::server::{HEAD_TIMEOUT, MAX_HEAD, Reply, Server, Stopped};
use crate::step::{Answer, Content, Ending, Step, What};
use crate::wire::{End, Line, Order, Sending, Stream};

/// How long a connection without requests stays.
const IDLE: Duration = Duration::from_secs(60);
/// How long a client that was told to go away may take.
const FAREWELL: Duration = Duration::from_secs(1);
const MAX_STREAMS: u32 = 100;

/// What a request asks for beyond its own stream.
enum Beyond {
    Connection(Order),
    /// Kept, since its end would be told to the client.
    GoAway(SendResponse<Bytes>),
}

pub(crate) async fn serve<S: Stream>(
    line: Line<S>,
    server: Arc<Server>,
    peer: SocketAddr,
    mut stopped: Stopped,
) -> io::Result<()> {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(MAX_STREAMS).max_header_list_size(MAX_HEAD as u32);
    let handshake = timeout(HEAD_TIMEOUT, builder.handshake(line.clone())).await;
    let Ok(Ok(mut connection)) = handshake else { return Ok(()) };
    let mut open = JoinSet::new();
    let mut going = Vec::new();
    let mut newest = 0;
    let mut stopping = false;
    let order = loop {
        let patience = if going.is_empty() { IDLE } else { FAREWELL };
        tokio::select! {
            biased;
            Some(ended) = open.join_next() => match ended {
                Ok(Some(Beyond::Connection(order))) => break order,
                Ok(Some(Beyond::GoAway(mut respond))) => {
                    let id = u32::from(respond.stream_id());
                    // Later requests are being dealt with, so that only a word about this one alone is true.
                    let last = if newest > id { newest } else { id.saturating_sub(2) };
                    if newest > id {
                        respond.send_reset(h2::Reason::REFUSED_STREAM);
                    }
                    line.slip_in(go_away(last));
                    going.push(respond);
                }
                _ => {}
            },
            accepted = connection.accept() => match accepted {
                Some(Ok((_, mut respond))) if !going.is_empty() => {
                    respond.send_reset(h2::Reason::REFUSED_STREAM);
                }
                Some(Ok((request, respond))) => {
                    newest = u32::from(respond.stream_id());
                    open.spawn(answer(Arc::clone(&server), peer, request, respond));
                }
                Some(Err(_)) | None => return Ok(()),
            },
            () = sleep(patience), if open.is_empty() => break End::Close.into(),
            () = stopped.wait(), if !stopping => {
                stopping = true;
                connection.graceful_shutdown();
            }
        }
    };
    drop((open, going, connection));
    tokio::select! {
        result = order.carry_out(line) => result,
        () = stopped.wait() => Ok(()),
    }
}

async fn answer(
    server: Arc<Server>,
    peer: SocketAddr,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) -> Option<Beyond> {
    let is_head = request.method() == Method::HEAD;
    let (parts, body) = request.into_parts();
    let reply = tokio::select! {
        reply = server.handle(&parts, Received(body), peer) => reply,
        _ = poll_fn(|context| respond.poll_reset(context)) => return None,
    };
    let (step, _place) = match reply {
        Reply::Gone => return None,
        Reply::Admin(response) => {
            let (parts, body) = response.into_parts();
            let mut step = Step::status(parts.status.as_u16()).body(body);
            for (name, value) in &parts.headers {
                step = step.header(name.as_str(), value.to_str().unwrap_or_default());
            }
            (step, None)
        }
        Reply::Step(step, place) => (step, Some(place)),
    };
    match &step.what {
        What::Answer(answer) => {
            // An error means that the client has left.
            let _ = send(answer, is_head, &mut respond).await;
            None
        }
        What::Reset | What::Refuse(_) => Some(Beyond::Connection(End::Reset.into())),
        What::Close => Some(Beyond::Connection(End::Close.into())),
        What::Raw { bytes, .. } => Some(Beyond::Connection(Order::raw(bytes))),
        What::GoAway => Some(Beyond::GoAway(respond)),
        What::ResetStream(code) => {
            respond.send_reset(code.reason());
            None
        }
        What::Hang => {
            let _ = poll_fn(|context| respond.poll_reset(context)).await;
            None
        }
    }
}

async fn send(answer: &Answer, is_head: bool, respond: &mut SendResponse<Bytes>) -> Result<(), h2::Error> {
    let mut body = Sending::new(answer);
    let nothing = is_head || body.is_empty() && answer.ending == Ending::Whole;
    let mut stream = respond.send_response(head(answer, &body), nothing)?;
    if nothing {
        return Ok(());
    }
    while let Some(piece) = body.next().await {
        send_piece(&mut stream, piece).await?;
    }
    match answer.ending {
        Ending::Whole => stream.send_data(Bytes::new(), true),
        Ending::Cut(_) => {
            stream.send_reset(h2::Reason::INTERNAL_ERROR);
            Ok(())
        }
        Ending::Stall(_) => poll_fn(|context| stream.poll_reset(context)).await.map(drop),
    }
}

/// What HTTP/2 cannot say is left out.
fn head(answer: &Answer, body: &Sending) -> Response<()> {
    let now = SystemTime::now();
    let mut response = Response::new(());
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    for (name, value) in &answer.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value.at(now)))
            && name != CONNECTION
            && name != TRANSFER_ENCODING
        {
            headers.append(name, value);
        }
    }
    if let Ok(date) = HeaderValue::try_from(httpdate::fmt_http_date(now)) {
        headers.entry(DATE).or_insert(date);
    }
    if !answer.chunked && answer.content != Content::Text(Bytes::new()) {
        headers.entry(CONTENT_LENGTH).or_insert(HeaderValue::from(body.length()));
    }
    response
}

async fn send_piece(stream: &mut SendStream<Bytes>, mut piece: Bytes) -> Result<(), h2::Error> {
    while !piece.is_empty() {
        stream.reserve_capacity(piece.len());
        let Some(room) = poll_fn(|context| stream.poll_capacity(context)).await else {
            return Err(h2::Reason::CANCEL.into());
        };
        let part = piece.split_to(room?.min(piece.len()));
        stream.send_data(part, false)?;
    }
    Ok(())
}

/// `GOAWAY` with the code `NO_ERROR` (RFC 9113 §6.8).
fn go_away(last: u32) -> Bytes {
    const TYPE: u8 = 7;
    let mut frame = BytesMut::new();
    frame.put_slice(&[0, 0, 8, TYPE, 0, 0, 0, 0, 0]);
    frame.put_u32(last);
    frame.put_u32(0);
    frame.freeze()
}

/// A request's body, as hyper's have it.
struct Received(RecvStream);

impl Body for Received {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let Some(data) = ready!(self.0.poll_data(context)) else { return Poll::Ready(None) };
        let data = data.and_then(|data| {
            self.0.flow_control().release_capacity(data.len())?;
            Ok(Frame::data(data))
        });
        Poll::Ready(Some(data))
    }
}
