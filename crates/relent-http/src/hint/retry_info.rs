//! `google.rpc.RetryInfo`, in a gRPC call's trailers and in JSON bodies.

use std::time::Duration;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::HeaderMap;
use serde_json::Value;

use super::number::decimal;

/// The address of the type, after whatever domain.
const TYPE: &str = "google.rpc.RetryInfo";

/// Binary metadata may be padded or not (gRPC over HTTP/2, "Custom-Metadata").
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The longest delay of a response's `RetryInfo`s.
pub(crate) fn read(headers: &HeaderMap, body: &str) -> Option<Duration> {
    let details = headers.get_all("grpc-status-details-bin").iter();
    let details = details.filter_map(|value| BASE64.decode(value.as_bytes()).ok());
    details.filter_map(|status| in_status(&status)).max().max(in_json(body))
}

/// `google.rpc.Status { repeated google.protobuf.Any details = 3 }`.
fn in_status(status: &[u8]) -> Option<Duration> {
    Fields(status).filter_map(|field| in_any(field.bytes(3)?)).max()
}

/// `Any { string type_url = 1; bytes value = 2 }` of `RetryInfo { google.protobuf.Duration retry_delay = 1 }`.
fn in_any(any: &[u8]) -> Option<Duration> {
    let address = Fields(any).filter_map(|field| field.bytes(1)).last()?;
    let value = Fields(any).filter_map(|field| field.bytes(2)).last()?;
    let is_ours = address.rsplit(|byte| *byte == b'/').next() == Some(TYPE.as_bytes());
    Fields(value).filter_map(|field| field.bytes(1)).last().filter(|_| is_ours).and_then(delay)
}

/// `Duration { int64 seconds = 1; int32 nanos = 2 }`; a negative one is no wait.
fn delay(duration: &[u8]) -> Option<Duration> {
    let number = |number| Fields(duration).filter_map(|field| field.varint(number)).last().unwrap_or(0);
    let seconds = u64::try_from(number(1).cast_signed()).ok()?;
    let nanos = u32::try_from(number(2)).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(seconds, nanos))
}

/// `{"error": {"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3.5s"}]}}`; gRPC gateways
/// leave out the `error`, streams put all in an array.
fn in_json(body: &str) -> Option<Duration> {
    if !body.contains(TYPE) {
        return None;
    }
    let body: Value = serde_json::from_str(body).ok()?;
    let details = ["/error/details", "/details", "/0/error/details"].into_iter();
    let details = details.filter_map(|path| body.pointer(path)?.as_array()).flatten();
    details.filter_map(of_detail).max()
}

fn of_detail(detail: &Value) -> Option<Duration> {
    let is_ours = detail.get("@type")?.as_str()?.rsplit('/').next() == Some(TYPE);
    let delay = detail.get("retryDelay")?.as_str().filter(|_| is_ours)?;
    decimal(delay.strip_suffix('s')?, Duration::from_secs(1))
}

/// The fields of a protobuf message, up to where it is broken.
struct Fields<'a>(&'a [u8]);

struct Field<'a> {
    number: u64,
    value: Wire<'a>,
}

enum Wire<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Fixed,
}

impl<'a> Field<'a> {
    fn bytes(&self, number: u64) -> Option<&'a [u8]> {
        match self.value {
            Wire::Bytes(bytes) if self.number == number => Some(bytes),
            _ => None,
        }
    }

    fn varint(&self, number: u64) -> Option<u64> {
        match self.value {
            Wire::Varint(value) if self.number == number => Some(value),
            _ => None,
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => self.take(8).map(|_| Wire::Fixed)?,
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Wire::Fixed)?,
            _ => return None,
        };
        Some(Field { number: tag >> 3, value })
    }
}

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// Seven bits a byte, the lowest first; ten bytes at most.
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}
