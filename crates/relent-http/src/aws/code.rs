//! Where AWS services put the code of an error.

use std::fmt;

use http::HeaderMap;
use quick_xml::events::Event;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

/// The error's code in a response, without namespace and address: `ThrottlingException`.
///
/// It is looked for in `x-amzn-query-error` (services that once spoke the query protocol), `x-amzn-errortype`, then in the
/// body: `__type` or `code` of a JSON object, or `Error/Code` of an XML document. A body that is broken off after the
/// code is read as far as it goes.
pub fn code(headers: &HeaderMap, body: &str) -> Option<String> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).and_then(plain);
    header("x-amzn-query-error").or_else(|| header("x-amzn-errortype")).or_else(|| in_body(body))
}

/// `aws.protocols#FooError:http://…` and `FooError;Sender` are both `FooError`.
fn plain(code: &str) -> Option<String> {
    let code = code.split([':', ';']).next().unwrap_or_default();
    let code = code.rsplit('#').next().unwrap_or_default().trim();
    (!code.is_empty()).then(|| code.to_owned())
}

fn in_body(body: &str) -> Option<String> {
    let body = body.trim_start_matches(|letter: char| letter == '\u{feff}' || letter.is_whitespace());
    match body.chars().next()? {
        '{' => in_json(body),
        '<' => in_xml(body),
        _ => None,
    }
}

fn in_json(body: &str) -> Option<String> {
    let mut found = Found::default();
    // What is broken off may have said its code before.
    let _ = serde_json::Deserializer::from_str(body).deserialize_map(&mut found);
    found.by_type.or(found.by_code).as_deref().and_then(plain)
}

#[derive(Default)]
struct Found {
    by_type: Option<String>,
    by_code: Option<String>,
}

impl<'de> Visitor<'de> for &mut Found {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "__type" => self.by_type = map.next_value::<Text>()?.0,
                "code" | "Code" => self.by_code = map.next_value::<Text>()?.0,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// A string, or something else.
struct Text(Option<String>);

impl<'de> serde::Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        Ok(Self(value.as_str().map(str::to_owned)))
    }
}

fn in_xml(body: &str) -> Option<String> {
    let mut reader = quick_xml::Reader::from_str(body);
    let mut path: Vec<String> = Vec::new();
    let mut code = String::new();
    let is_code = |path: &[String]| matches!(path, [.., parent, own] if parent == "Error" && own == "Code");
    loop {
        match reader.read_event().ok()? {
            Event::Start(start) => path.push(start.local_name().as_ref().to_owned()),
            Event::Text(text) if is_code(&path) => code.push_str(&text.xml10_content()),
            Event::End(_) if is_code(&path) => return plain(&code),
            Event::End(_) => drop(path.pop()),
            Event::Eof => return None,
            _ => {}
        }
    }
}
