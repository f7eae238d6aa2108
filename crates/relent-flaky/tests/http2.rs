//! HTTP/2 with prior knowledge, through a real client.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

use bytes::Bytes;
use h2::Reason;
use h2::client::SendRequest;
use http::{Method, Request, StatusCode};
use relent_flaky::{Flaky, Handle};
use tokio::net::TcpStream;

/// What became of a request: the status and the body's length, or the error.
type Outcome = Result<(u16, usize), h2::Error>;

async fn flaky(script: &str) -> Handle {
    Flaky::builder().script(script.parse().unwrap()).start().await.unwrap()
}

async fn connect(server: &Handle) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(server.addr()).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn send(client: &SendRequest<Bytes>, method: Method, body: &'static str) -> Outcome {
    let mut client = client.clone().ready().await?;
    let request = Request::builder().method(method).uri("http://flaky/a").body(()).unwrap();
    let (response, mut stream) = client.send_request(request, body.is_empty())?;
    if !body.is_empty() {
        stream.send_data(Bytes::from_static(body.as_bytes()), true)?;
    }
    let response = response.await?;
    let status = response.status().as_u16();
    let mut body = response.into_body();
    let mut length = 0;
    while let Some(data) = body.data().await {
        let data = data?;
        length += data.len();
        body.flow_control().release_capacity(data.len())?;
    }
    Ok((status, length))
}

async fn get(client: &SendRequest<Bytes>) -> Outcome {
    send(client, Method::GET, "").await
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn run(test: impl Future<Output = ()>) {
    runtime().block_on(async {
        // A test that hangs says nothing.
        tokio::time::timeout(std::time::Duration::from_secs(20), test).await.unwrap();
    });
}

#[test]
fn a_script_is_followed_and_bodies_come_whole() {
    run(async {
        let server = flaky("503,204,200(size=200000),200(size=50,over=5ms),slow(1ms)").await;
        let client = connect(&server).await;
        assert_eq!(get(&client).await.unwrap(), (503, 24));
        assert_eq!(get(&client).await.unwrap(), (204, 0));
        assert_eq!(get(&client).await.unwrap(), (200, 200_000));
        assert_eq!(get(&client).await.unwrap(), (200, 50));
        assert_eq!(send(&client, Method::HEAD, "").await.unwrap(), (200, 0));
        assert_eq!(send(&client, Method::POST, "hello").await.unwrap().0, 200);
        let counters = server.counters();
        assert_eq!((counters.connections, counters.requests, counters.effects), (1, 6, 1));
        server.shutdown().await;
    });
}

#[test]
fn streams_are_reset_alone() {
    run(async {
        let server = flaky("refused-stream,rst-stream(internal_error),rst-stream(cancel),cut,200").await;
        let client = connect(&server).await;
        let codes = [Reason::REFUSED_STREAM, Reason::INTERNAL_ERROR, Reason::CANCEL, Reason::INTERNAL_ERROR];
        for code in codes {
            let error = get(&client).await.unwrap_err();
            assert_eq!((error.reason(), error.is_remote()), (Some(code), true), "{error}");
        }
        assert_eq!(get(&client).await.unwrap().0, 200);
        assert_eq!(server.counters().connections, 1);
    });
}

/// The last stream lies before the one that meets it, and those before it are answered.
#[test]
fn go_away_spares_what_came_before() {
    run(async {
        let server = flaky("slow(50ms),goaway,200").await;
        let client = connect(&server).await;
        let (slow, gone) = tokio::join!(biased; get(&client), get(&client));
        assert_eq!(slow.unwrap().0, 200);
        let error = gone.unwrap_err();
        assert!(error.is_go_away() && error.is_remote(), "{error}");
        assert_eq!(error.reason(), Some(Reason::NO_ERROR));
        let later = get(&client).await.unwrap_err();
        assert!(later.is_go_away(), "{later}");
        assert_eq!(get(&connect(&server).await).await.unwrap().0, 200);
    });
}

/// A first request that is refused: the last stream is 0.
#[test]
fn go_away_as_the_first_word() {
    run(async {
        let server = flaky("goaway").await;
        let error = send(&connect(&server).await, Method::POST, "x").await.unwrap_err();
        assert!(error.is_go_away(), "{error}");
        assert_eq!(server.counters().effects, 0);
    });
}

/// Where a later request was carried out, it must not be told that it was not.
#[test]
fn go_away_does_not_deny_what_was_done() {
    run(async {
        let server = flaky("goaway(delay=50ms),200").await;
        let client = connect(&server).await;
        let (first, second) =
            tokio::join!(biased; send(&client, Method::POST, "a"), send(&client, Method::POST, "b"));
        assert_eq!(first.unwrap_err().reason(), Some(Reason::REFUSED_STREAM));
        assert_eq!(second.unwrap().0, 200);
        assert!(get(&client).await.unwrap_err().is_go_away());
        assert_eq!(server.counters().effects, 1);
    });
}

#[test]
fn faults_of_the_connection_end_all_streams() {
    run(async {
        let server = flaky("reset,close,garbage,refuse(1ms)").await;
        for label in ["reset", "close", "garbage", "refuse"] {
            let error = loop {
                // After a refusal the port needs a moment.
                let Ok(stream) = TcpStream::connect(server.addr()).await else { continue };
                let (client, connection) = h2::client::handshake(stream).await.unwrap();
                tokio::spawn(connection);
                break get(&client).await.unwrap_err();
            };
            assert!(!error.is_reset(), "{label}: {error}");
            assert_eq!(server.counters().answers[label], 1);
        }
    });
}

#[test]
fn the_admin_path_is_there_too() {
    run(async {
        let server = flaky("503").await;
        let mut client = connect(&server).await;
        let request = Request::get("http://flaky/_flaky/counters").body(()).unwrap();
        let (response, _) = client.send_request(request, true).unwrap();
        let response = response.await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "application/json");
        assert_eq!(server.counters().requests, 0);
    });
}

#[test]
fn a_stream_that_hangs_lets_the_others_pass_and_the_end_come() {
    run(async {
        let server = flaky("hang,stall,200").await;
        let client = connect(&server).await;
        let hanging = tokio::spawn({
            let client = client.clone();
            async move { get(&client).await }
        });
        while server.counters().requests == 0 {
            tokio::task::yield_now().await;
        }
        let stalled = tokio::spawn({
            let client = client.clone();
            async move { get(&client).await }
        });
        while server.counters().requests == 1 {
            tokio::task::yield_now().await;
        }
        assert_eq!(get(&client).await.unwrap().0, 200);
        drop(server);
        assert!(hanging.await.unwrap().is_err());
        assert!(stalled.await.unwrap().is_err());
    });
}
