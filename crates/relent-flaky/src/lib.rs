//! A server that fails on command, for tests, demos and CI.
//!
//! Clients are tried on servers that work, and meet the others in production: the one that answers 503 twice, resets
//! the connection, promises 64 bytes and sends 32, says `GOAWAY`, or does what it was asked and loses the answer. This
//! one does all of that by a script, counts what it was asked and what it did, and does it again in the same way.
//!
//! ```
//! use std::io::{Read, Write};
//! use std::net::TcpStream;
//! use relent_flaky::Flaky;
//!
//! let server = Flaky::builder().script("503(retry-after=1)*2, reset, 200".parse()?).start_in_thread()?;
//! let mut connection = TcpStream::connect(server.addr())?;
//! connection.write_all(b"GET /orders HTTP/1.1\r\nhost: flaky\r\nconnection: close\r\n\r\n")?;
//! let mut answer = String::new();
//! connection.read_to_string(&mut answer)?;
//! assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n"));
//! assert_eq!(server.counters().paths["/orders"].answers["503"], 1);
//! server.shutdown();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In async tests it is `start().await`, on the runtime of the test. `relent flaky` is the same as a program.
//!
//! # The script language
//!
//! Steps are separated by commas and may be followed by `*COUNT`. After the last one it repeats, unless the script ends
//! in `loop`. Space and lines are free.
//!
//! | step | what happens |
//! |---|---|
//! | `503` | an answer with this status, from 200 to 999 |
//! | `slow(2s)`, `slow(2s, 503)` | the same after a while: `200(delay=2s)` |
//! | `reset` | TCP RST, once the request has been read |
//! | `close` | the connection is closed without an answer |
//! | `hang`, `hang(10s)` | no answer ever; or the end after a while |
//! | `refuse(2s)` | this connection is reset, new ones are refused for a while |
//! | `cut`, `cut(N)` | a body that ends too early, after N bytes of 2 N: `200(size=64, cut=32)` |
//! | `stall`, `stall(N)` | a body that stops, after N bytes of 2 N, and never goes on |
//! | `garbage` | bytes that are no HTTP |
//! | `raw("HTTP/1.1 200 OK\r\n…")` | these bytes, then the end |
//! | `goaway` | HTTP/2: `GOAWAY` whose last stream lies before this request's; HTTP/1: `close` |
//! | `refused-stream`, `rst-stream(CODE)` | HTTP/2: `RST_STREAM` with `refused_stream`, `internal_error`, `cancel`, `protocol_error`, `enhance_your_calm`; HTTP/1: `close` |
//! | `loop` | as the last step: the script begins anew |
//!
//! | in parentheses | means |
//! |---|---|
//! | `delay=2s` | waits before it happens |
//! | `done` | the request is carried out although the client does not hear of it |
//! | `body="…"`, `size=N` | the body of an answer; default: the status in words |
//! | `over=2s` | spreads the body over this time |
//! | `cut=N`, `stall=N` | what becomes of the body after N bytes |
//! | `chunked` | HTTP/1: sends it in chunks |
//! | `NAME=VALUE` | any other name is a header |
//!
//! Values with commas, parentheses or quotes are quoted, `"…"` or `'…'`, with `\n`, `\r`, `\t`, `\0`, `\\`, `\"`, `\'` and
//! `\xHH` (a byte). A header's value may be made when it is sent: `date(5s)`, `rfc850(5s)`, `asctime(5s)` (the three
//! forms of a date, so long from now; `-1h` is in the past), `epoch(5s)` (seconds since 1970), `digits(400)` (a number
//! as long as that). Headers that HTTP forbids are sent as they are over HTTP/1.
//!
//! # What decides
//!
//! Each request has a number among those that are counted together ([`Scope`]). The first of these decides:
//!
//! 1. an [`Outage`], by the clock;
//! 2. the [`Capacity`];
//! 3. the script, by the number; the rate of failures ([`Builder::fail`]) spoils answers from 200 to 399.
//!
//! The third depends on seed, path and number alone: the n-th request to a path meets the same fate whatever the timing.
//!
//! Requests other than GET, HEAD, OPTIONS and TRACE have an effect where the answer is from 200 to 299, or the step is
//! `done`. One `Idempotency-Key` has one effect, and later requests with it that would succeed get the first answer; with
//! another method, path or body it is 422. [`Counters`] tells what was done twice.
//!
//! # Bounds
//!
//! At most 1024 connections at once (the others get 503), 64 KiB for a head, 30 s for a head or for the next piece of a
//! body. Bodies are hashed and not kept. The last 10 000 keys, bodies and positions in scripts are remembered.
//!
//! It trusts its clients: whoever reaches the admin path can change the script. It belongs on a loopback address or in a
//! network of tests.

mod admin;
mod bounded;
mod builder;
mod counters;
mod fate;
mod file;
mod http1;
mod http2;
mod law;
mod parse;
mod record;
mod script;
mod server;
mod step;
#[cfg(feature = "tls")]
mod tls;
mod wire;

pub use builder::{Builder, Flaky, Handle, PatternError, Threaded};
pub use counters::{Counters, Duplicates, PathCounters};
pub use fate::{Cause, Done};
pub use law::{Capacity, Keys, Latency, Outage, Scope};
pub use record::Record;
pub use script::{After, Script, ScriptError};
pub use step::{Step, StreamError};
#[cfg(feature = "tls")]
pub use tls::Identity;
