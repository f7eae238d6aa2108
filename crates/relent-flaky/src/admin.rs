//! The admin path: counters, a fresh start, another script.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::request::Parts;
use http::{Method, Response, StatusCode};

use crate::fate::Route;
use crate::script::Script;
use crate::server::Server;

/// The longest body that is read.
pub(crate) const MAX_BODY: usize = 64 * 1024;

/// What follows the prefix, if the path lies below it.
pub(crate) fn place<'a>(prefix: &str, path: &'a str) -> Option<&'a str> {
    path.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

pub(crate) fn answer(server: &Arc<Server>, place: &str, parts: &Parts, body: &[u8]) -> Response<Bytes> {
    let post = [Method::POST, Method::PUT].contains(&parts.method);
    let get = [Method::GET, Method::HEAD].contains(&parts.method);
    match place {
        "/counters" if get => {
            let counters = server.state().counters.clone();
            match serde_json::to_vec_pretty(&counters) {
                Ok(json) => text(StatusCode::OK, "application/json", json),
                Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
            }
        }
        "/metrics" if get => {
            let page = server.state().counters.to_prometheus();
            text(StatusCode::OK, "text/plain; version=0.0.4", page)
        }
        "/reset" if post => {
            server.reset();
            text(StatusCode::NO_CONTENT, "text/plain", "")
        }
        "/script" if post => match set_script(server, parts.uri.query().unwrap_or_default(), body) {
            Ok(()) => text(StatusCode::NO_CONTENT, "text/plain", ""),
            Err(wrong) => plain(StatusCode::BAD_REQUEST, wrong),
        },
        "/counters" | "/metrics" => not_allowed("GET"),
        "/reset" | "/script" => not_allowed("POST"),
        _ => {
            let known = "there are: GET /counters, GET /metrics, POST /reset, POST /script?path=/…";
            plain(StatusCode::NOT_FOUND, known.to_owned())
        }
    }
}

fn set_script(server: &Server, query: &str, body: &[u8]) -> Result<(), String> {
    if body.len() > MAX_BODY {
        return Err(format!("a script has at most {MAX_BODY} bytes"));
    }
    let body = std::str::from_utf8(body).map_err(|_| "a script is UTF-8".to_owned())?;
    let script: Script = body.parse().map_err(|error| format!("{error}"))?;
    match query.split_once('=') {
        None if query.is_empty() => server.state().set_script(None, Some(script)),
        Some(("path", pattern)) => {
            let pattern = decoded(pattern);
            let route = Route::new(&pattern, script).ok_or_else(|| {
                format!("path={}: expected /path, /prefix* or METHOD /path", pattern.escape_debug())
            })?;
            server.state().set_script(Some((pattern, route)), None);
        }
        _ => return Err("unknown query: expected ?path=/…, or none".to_owned()),
    }
    Ok(())
}

/// Undoes percent-encoding and the `+` of forms; what is no UTF-8 then is no path of ours.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match (byte, digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(decoded)) => {
                bytes.push(decoded);
                rest = behind.get(2..).unwrap_or_default();
            }
            (b'+', _) => bytes.push(b' '),
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn not_allowed(allowed: &'static str) -> Response<Bytes> {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, format!("use {allowed}"));
    response.headers_mut().insert(ALLOW, http::HeaderValue::from_static(allowed));
    response
}

fn plain(status: StatusCode, words: String) -> Response<Bytes> {
    text(status, "text/plain; charset=utf-8", words + "\n")
}

fn text(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}
