//! HTTP/1.1 over real sockets: what the client sees, byte by byte.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod wire;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use relent_flaky::{Builder, Done, Flaky, Keys, Record, Step, Threaded};
use wire::{Client, Ended};

fn flaky(script: &str) -> Threaded {
    start(Flaky::builder().script(script.parse().unwrap()))
}

fn start(builder: Builder) -> Threaded {
    builder.start_in_thread().unwrap()
}

#[test]
fn a_script_is_followed_on_one_connection() {
    let server = flaky("503*2,429(retry-after=1),200");
    let mut client = Client::connect(server.addr());
    let statuses: Vec<u16> = (0..5).map(|_| client.get("/").status).collect();
    assert_eq!(statuses, [503, 503, 429, 200, 200]);
    let counters = server.counters();
    assert_eq!((counters.requests, counters.connections), (5, 1));
    assert_eq!(counters.answers, [("200".into(), 2), ("429".into(), 1), ("503".into(), 2)].into());
}

#[test]
fn answers_have_the_headers_and_bodies_that_were_asked_for() {
    let server =
        flaky(r#"429(retry-after=1, X-Two="a, b", body="line\n"), 204, 302(location=/x), 299, 200(chunked)"#);
    let mut client = Client::connect(server.addr());
    let busy = client.get("/");
    assert_eq!((busy.header("retry-after"), busy.header("x-two")), (Some("1"), Some("a, b")));
    assert_eq!((busy.body.as_str(), busy.header("content-length")), ("line\n", Some("5")));
    assert!(busy.header("date").is_some());
    assert_eq!(client.get("/").body, "");
    assert_eq!(client.get("/").header("location"), Some("/x"));
    assert_eq!(client.get("/").body, "299 (a status without a name)\n");
    let chunked = client.get("/");
    assert_eq!(
        (chunked.header("transfer-encoding"), chunked.header("content-length")),
        (Some("chunked"), None)
    );
}

#[test]
fn a_reset_is_a_reset_and_a_close_is_an_end() {
    let server = flaky("reset,close,close(delay=1ms),hang(1ms),goaway,refused-stream");
    for path in ["/", "/reset"] {
        assert_eq!(Client::connect(server.addr()).ends(path), Ended::Reset, "{path}");
    }
    for _ in 0..5 {
        assert_eq!(Client::connect(server.addr()).ends("/"), Ended::Eof(String::new()));
    }
}

#[test]
fn nothing_is_answered_until_the_client_leaves() {
    let server = flaky("hang,200");
    let mut client = Client::connect(server.addr());
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    client.stream.get_mut().set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let error = client.stream.read(&mut [0; 8]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    drop(client);
    assert_eq!(Client::connect(server.addr()).get("/").status, 200);
}

#[test]
fn bodies_end_too_early() {
    let server =
        flaky("cut, 200(body=hello, cut=2), 200(body=hello, chunked, cut=2), 200(body=hello,cut=0), 200");
    let mut bodies = Vec::new();
    for _ in 0..4 {
        let Ended::Eof(text) = Client::connect(server.addr()).ends("/") else { panic!("reset") };
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let told =
            head.lines().find(|line| line.starts_with("content-length") || line.starts_with("transfer"));
        bodies.push(format!("{} {body:.8}", told.unwrap()));
    }
    let expected = [
        "content-length: 64 xxxxxxxx",
        "content-length: 5 he",
        "transfer-encoding: chunked 5\r\nhe",
        "content-length: 5 ",
    ];
    assert_eq!(bodies, expected);
    assert_eq!(Client::connect(server.addr()).get("/").status, 200);
    assert_eq!(server.counters().answers["200+cut"], 4);
}

#[test]
fn a_stalled_body_stays_open() {
    let server = flaky("200(body=hello, stall=2)");
    let mut client = Client::connect(server.addr());
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    client.stream.get_mut().set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut text = Vec::new();
    let error = client.stream.read_to_end(&mut text).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    assert!(text.ends_with(b"\r\n\r\nhe"), "{}", String::from_utf8_lossy(&text));
}

#[test]
fn a_slow_body_comes_whole() {
    let server = flaky("200(size=1000, over=20ms), 200(size=1000, over=20ms, chunked)");
    let mut client = Client::connect(server.addr());
    for _ in 0..2 {
        assert_eq!(client.get("/").body.len(), 1000);
    }
}

#[test]
fn what_is_no_http_is_sent_as_it_is() {
    let raw = r#"garbage, raw("HTTP/1.1 200 OK\r\nbad\x01: \xff\r\n\r\n"), 200(retry-after="1\r\nx: y\x01")"#;
    let server = flaky(raw);
    let bytes = || {
        let mut client = Client::connect(server.addr());
        client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
        let mut bytes = Vec::new();
        client.stream.read_to_end(&mut bytes).unwrap();
        bytes
    };
    assert!(bytes().starts_with(b"\x00\xff"));
    assert_eq!(bytes(), b"HTTP/1.1 200 OK\r\nbad\x01: \xff\r\n\r\n");
    let answer = bytes();
    let head = b"HTTP/1.1 200 OK\r\nretry-after: 1\r\nx: y\x01\r\n";
    assert!(answer.starts_with(head), "{}", String::from_utf8_lossy(&answer));
}

/// The cases that clients' parsers of `Retry-After` have stumbled over.
#[test]
fn hints_of_all_kinds() {
    let server = flaky(
        "503(retry-after=date(5s)), 503(retry-after=rfc850(-1h)), 503(retry-after=asctime(0s)),
         503(retry-after=digits(400)), 503(retry-after='-1'), 503(retry-after=soon), 503(retry-after=''),
         429(date=date(-1d), retry-after=date(-1d), x-ratelimit-reset=epoch(5s)), 503(retry-after=1,retry-after=2)",
    );
    let mut client = Client::connect(server.addr());
    let mut hint = |name: &str| client.get("/").header(name).unwrap().to_owned();
    let date = hint("retry-after");
    assert!(date.ends_with(" GMT") && date.len() == 29, "{date}");
    let date = hint("retry-after");
    assert!(date.contains("day, ") && date.matches('-').count() == 2, "{date}");
    assert_eq!(hint("retry-after").len(), 24);
    assert_eq!(hint("retry-after"), "9".repeat(400));
    assert_eq!([hint("retry-after"), hint("retry-after"), hint("retry-after")], ["-1", "soon", ""]);
    let past = client.get("/");
    assert_eq!(past.header("date"), past.header("retry-after"));
    assert!(past.header("x-ratelimit-reset").unwrap().parse::<u64>().unwrap() > 1_700_000_000);
    let twice = client.get("/");
    assert_eq!(twice.head.matches("retry-after").count(), 2);
}

#[test]
fn connections_are_refused_for_a_while_and_the_port_stays_ours() {
    let server = flaky("refuse(300ms),200");
    assert_eq!(Client::connect(server.addr()).ends("/"), Ended::Reset);
    let refused = loop {
        // The listener closes right after the reset.
        match TcpStream::connect(server.addr()) {
            Err(error) => break error,
            Ok(_) => std::thread::yield_now(),
        }
    };
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    let mut client = Client::connect_patiently(server.addr());
    assert_eq!(client.get("/").status, 200);
}

#[test]
fn an_outage_by_the_clock_closes_the_port() {
    let outage = "0s..200ms=refuse".parse().unwrap();
    let server = start(Flaky::builder().outage(outage));
    // Who gets through in the very moment in which the port opens may still be thrown out.
    let served = || {
        let mut client = Client::connect_patiently(server.addr());
        let answer = std::panic::AssertUnwindSafe(|| client.get("/").status);
        (std::panic::catch_unwind(answer).ok() == Some(200)).then_some(client)
    };
    let mut client = (0..100).find_map(|_| served()).unwrap();
    server.reset();
    // Who is connected does not get through either.
    assert_eq!(client.ends("/"), Ended::Reset);
    assert_eq!(server.counters().causes["outage"], 1);
}

#[test]
fn lost_answers_and_keys() {
    let server = flaky("close(done),200");
    let post = |client: &mut Client, key: &str, body: &str| client.post("/orders", key, body);
    let key = "idempotency-key: a\r\nrelent-attempt: 2\r\n";
    assert_eq!(post(&mut Client::connect(server.addr()), key, "one"), None);
    let mut client = Client::connect(server.addr());
    assert_eq!(post(&mut client, key, "one").unwrap().status, 200);
    assert_eq!(post(&mut client, key, "two").unwrap().status, 422);
    assert_eq!(post(&mut client, "", "one").unwrap().status, 200);
    assert_eq!(post(&mut client, "", "one").unwrap().status, 200);
    let counters = server.counters();
    assert_eq!((counters.effects, counters.repeated, counters.mismatched), (3, 1, 1));
    assert_eq!((counters.duplicates.with_key, counters.duplicates.without_key), (0, 1));
    assert_eq!(counters.attempts, [("2".to_owned(), 3)].into());
    let orders = &counters.paths["/orders"];
    assert_eq!((orders.bodies.len(), orders.keys["a"], orders.effects), (2, 3, 3));
    // FNV-1a of "one", by its published parameters.
    let fnv = b"one".iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    assert_eq!(orders.bodies[&format!("{fnv:016x}")], 4);
}

#[test]
fn keys_can_be_ignored() {
    let server = start(Flaky::builder().keys(Keys::Ignore));
    let mut client = Client::connect(server.addr());
    for _ in 0..3 {
        client.post("/", "idempotency-key: a\r\n", "x").unwrap();
    }
    assert_eq!(server.counters().duplicates.with_key, 2);
}

#[test]
fn paths_have_their_own_scripts_and_they_can_be_changed() {
    let builder = Flaky::builder().path("/a", "503,200".parse().unwrap()).unwrap();
    let server = start(builder.path("GET /b*", "404".parse().unwrap()).unwrap());
    let mut client = Client::connect(server.addr());
    let statuses = ["/a", "/a?x=1", "/b/c", "/"].map(|path| client.get(path).status);
    assert_eq!(statuses, [503, 200, 404, 200]);
    server.set_script("500".parse().unwrap());
    server.set_path_script("/a", "501".parse().unwrap()).unwrap();
    assert_eq!(["/a", "/b", "/"].map(|path| client.get(path).status), [501, 404, 500]);
    assert!(server.set_path_script("a", "501".parse().unwrap()).is_err());
}

#[test]
fn the_admin_path_shows_and_changes() {
    let server = flaky("503,200");
    let mut client = Client::connect(server.addr());
    client.get("/");
    let counters = client.get("/_flaky/counters");
    assert_eq!(counters.header("content-type"), Some("application/json"));
    assert!(counters.body.contains("\"requests\": 1,"), "{}", counters.body);
    assert!(client.get("/_flaky/metrics").body.contains("relent_flaky_answers_total{answer=\"503\"} 1\n"));
    assert_eq!(client.post("/_flaky/reset", "", "").unwrap().status, 204);
    assert_eq!(client.get("/").status, 503);
    assert_eq!(client.post("/_flaky/script", "", "418").unwrap().status, 204);
    assert_eq!(client.post("/_flaky/script?path=GET%20/a", "", "501").unwrap().status, 204);
    assert_eq!(["/", "/a"].map(|path| client.get(path).status), [418, 501]);
    let cases = [
        ("/_flaky/script", "rset", 400, "did you mean \"reset\"?\n  rset\n  ^^^^\n"),
        ("/_flaky/script?path=a", "200", 400, "expected /path"),
        ("/_flaky/script?pfad=/a", "200", 400, "unknown query"),
        ("/_flaky/counters", "", 405, "use GET"),
        ("/_flaky", "", 404, "there are"),
    ];
    for (path, body, status, said) in cases {
        let answer = client.post(path, "", body).unwrap();
        assert_eq!(answer.status, status, "{path}");
        assert!(answer.body.contains(said), "{path}: {}", answer.body);
    }
    assert_eq!(client.get("/_flaky/reset").status, 405);
    assert_eq!(client.post("/_flaky/script", "", &"2".repeat(100_000)).unwrap().status, 400);
    // Only what begins with it as a whole, and elsewhere, or nowhere, if that is asked for.
    assert_eq!(client.get("/_flakyx").status, 418);
    let server = start(Flaky::builder().admin(Some("ops/")));
    let mut client = Client::connect(server.addr());
    assert!(client.get("/ops/counters").body.contains("\"requests\": 0"));
    assert!(!client.get("/_flaky/counters").body.contains("requests"));
    let server = start(Flaky::builder().admin(None));
    assert!(!Client::connect(server.addr()).get("/_flaky/counters").body.contains("requests"));
}

#[test]
fn beyond_the_capacity() {
    let server = start(
        Flaky::builder().capacity("2/h".parse().unwrap()).overload("429(retry-after=7)".parse().unwrap()),
    );
    let mut client = Client::connect(server.addr());
    assert_eq!([0; 4].map(|_| client.get("/").status), [200, 200, 429, 429]);
    assert_eq!(client.get("/").header("retry-after"), Some("7"));
}

#[test]
fn a_place_is_free_again_when_the_client_has_left() {
    let server = start(Flaky::builder().script("hang,200".parse().unwrap()).capacity("1".parse().unwrap()));
    let mut hanging = Client::connect(server.addr());
    hanging.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    while server.counters().requests == 0 {
        std::thread::yield_now();
    }
    let mut client = Client::connect(server.addr());
    assert_eq!(client.get("/").status, 503);
    drop(hanging);
    while client.get("/").status != 200 {
        std::thread::yield_now();
    }
}

#[test]
fn each_request_is_told_to_the_hook() {
    let told: Arc<Mutex<Vec<Record>>> = Arc::default();
    let hook = Arc::clone(&told);
    let builder = Flaky::builder()
        .script("503(delay=1ms),reset".parse().unwrap())
        .latency("fixed(2ms)".parse().unwrap())
        .on_request(move |record| hook.lock().unwrap().push(record.clone()));
    let server = start(builder);
    Client::connect(server.addr()).post("/a?b", "amz-sdk-request: attempt=2; max=3\r\n", "x").unwrap();
    assert_eq!(Client::connect(server.addr()).ends("/a"), Ended::Reset);
    let told = told.lock().unwrap();
    let first = &told[0];
    assert_eq!((first.method.as_str(), first.path.as_str(), first.number), ("POST", "/a", 1));
    assert_eq!((first.answer.as_str(), first.status, first.done), ("503", Some(503), Done::Nothing));
    assert_eq!((first.attempt.as_deref(), first.wait), (Some("2"), Duration::from_millis(3)));
    assert_eq!((told[1].number, told[1].answer.as_str(), told[1].status), (2, "reset", None));
    assert_eq!(server.counters().paths["/a"].waits_us, 5_000);
}

#[test]
fn requests_on_their_way_are_answered_before_the_end() {
    let server = flaky("slow(100ms)");
    let mut client = Client::connect(server.addr());
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    while server.counters().requests == 0 {
        std::thread::yield_now();
    }
    server.shutdown();
    let mut text = String::new();
    client.stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
}

#[test]
fn dropping_it_ends_it_at_once() {
    let server = flaky("hang");
    let address = server.addr();
    let mut client = Client::connect(address);
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    while server.counters().requests == 0 {
        std::thread::yield_now();
    }
    drop(server);
    assert!(TcpStream::connect(address).is_err());
    assert!(matches!(client.stream.read(&mut [0; 8]), Ok(0) | Err(_)));
}

#[test]
fn a_port_that_is_taken_is_an_error() {
    let server = flaky("200");
    let error = Flaky::builder().listen(server.addr()).start_in_thread().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
}

#[test]
fn too_many_connections_are_sent_away() {
    let server = start(Flaky::builder().max_connections(2));
    let mut kept: Vec<Client> = (0..2).map(|_| Client::connect(server.addr())).collect();
    for client in &mut kept {
        client.get("/");
    }
    for _ in 0..200 {
        assert_eq!(Client::connect(server.addr()).get("/").header("retry-after"), Some("1"));
    }
    assert_eq!(kept[0].get("/").status, 200);
    let counters = server.counters();
    assert_eq!((counters.connections, counters.turned_away, counters.requests), (2, 200, 3));
    drop(kept);
    while Client::connect(server.addr()).get("/").status != 200 {}
}

#[test]
fn hostile_requests_harm_nobody() {
    let server = start(Flaky::builder().script(relent_flaky::Script::new(Step::status(200))));
    let long = format!("GET / HTTP/1.1\r\nhost: x\r\na: {}\r\n\r\n", "x".repeat(1_000_000));
    let many = format!("GET / HTTP/1.1\r\nhost: x\r\n{}\r\n", "a: b\r\n".repeat(10_000));
    let cases = [
        long.as_str(),
        many.as_str(),
        "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n",
        "GET\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00",
        "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999999999999\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nab",
    ];
    for bytes in cases {
        let mut client = Client::connect(server.addr());
        let _ = client.stream.get_mut().write_all(bytes.as_bytes());
        let _ = client.stream.get_mut().shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = client.stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(!answer.starts_with("HTTP/1.1 200"), "{bytes:.60}: {answer}");
    }
    let mut client = Client::connect(server.addr());
    for path in ["/%00%ff", "/\u{e4}", &format!("/{}", "x".repeat(10_000))] {
        assert!(matches!(client.get(path).status, 200 | 400), "{path:.20}");
        client = Client::connect(server.addr());
    }
    assert_eq!(client.get("/").status, 200);
}

/// A client that sends a byte now and then keeps its connection and nothing more.
#[test]
fn slow_clients_do_not_stop_the_others() {
    let server = start(Flaky::builder().max_connections(200));
    let mut slow: Vec<Client> = (0..150).map(|_| Client::connect(server.addr())).collect();
    for client in &mut slow {
        client.send("GET / HTT");
    }
    assert_eq!(Client::connect(server.addr()).get("/").status, 200);
    for client in &mut slow {
        client.send("P/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(client.read().status, 200);
    }
}

#[test]
fn heads_bodies_and_pipelines_are_read_as_they_should() {
    let server = flaky("200*2,reset");
    let mut client = Client::connect(server.addr());
    client.send("HEAD / HTTP/1.1\r\nhost: x\r\n\r\n");
    client.stream.get_mut().set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut head = Vec::new();
    let _ = client.stream.read_to_end(&mut head);
    assert!(String::from_utf8(head).unwrap().ends_with("\r\n\r\n"));
    // What was answered before the reset arrives, then the reset.
    let mut client = Client::connect(server.addr());
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(client.read().status, 200);
    let mut rest = Vec::new();
    assert!(client.stream.read_to_end(&mut rest).is_err());
    // A client that waits for leave to send its body gets it.
    let mut client = Client::connect(server.addr());
    server.reset();
    client.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\nexpect: 100-continue\r\n\r\n");
    assert_eq!(client.read_head().lines().next(), Some("HTTP/1.1 100 Continue"));
    client.send("abc");
    assert_eq!(client.read().status, 200);
}
