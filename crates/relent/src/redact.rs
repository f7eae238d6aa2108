//! Secrets in URLs do not belong in logs.

use std::borrow::Cow;

/// `text` with the secrets of its URLs cut: user and password before an `@`, and the values of query parameters whose
/// names speak of secrets (`token`, `key`, `secret`, `password`, `signature`, `credential`, `auth`, `sig`, `code`).
///
/// ```
/// let cut = relent::redact("GET https://me:hunter2@host/a?page=2&api_key=s3cr3t#top failed");
/// assert_eq!(cut, "GET https://***@host/a?page=2&api_key=***#top failed");
/// ```
pub fn redact(text: &str) -> Cow<'_, str> {
    if !text.contains("://") {
        return Cow::Borrowed(text);
    }
    let mut cut = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        cut.push_str(before);
        cut.push_str("://");
        let end = after.find(ends_url).unwrap_or(after.len());
        let (url, next) = after.split_at(end);
        push_url(&mut cut, url);
        rest = next;
    }
    cut.push_str(rest);
    Cow::Owned(cut)
}

fn ends_url(char: char) -> bool {
    char.is_whitespace() || matches!(char, '"' | '\'' | '<' | '>' | '`' | '|' | '{' | '}' | '\\' | '^')
}

/// Appends what follows a `://`.
fn push_url(cut: &mut String, url: &str) {
    let authority = url.find(['/', '?', '#']).unwrap_or(url.len());
    let (authority, path) = url.split_at(authority);
    match authority.rsplit_once('@') {
        Some((_, host)) => {
            cut.push_str("***@");
            cut.push_str(host);
        }
        None => cut.push_str(authority),
    }
    let Some((path, query)) = path.split_once('?') else { return cut.push_str(path) };
    cut.push_str(path);
    cut.push('?');
    let (query, fragment) = query.split_at(query.find('#').unwrap_or(query.len()));
    for (index, parameter) in query.split('&').enumerate() {
        if index > 0 {
            cut.push('&');
        }
        match parameter.split_once('=') {
            Some((name, _)) if speaks_of_secrets(name) => {
                cut.push_str(name);
                cut.push_str("=***");
            }
            _ => cut.push_str(parameter),
        }
    }
    cut.push_str(fragment);
}

fn speaks_of_secrets(name: &str) -> bool {
    const WORDS: [&str; 10] =
        ["token", "key", "secret", "passw", "pwd", "signature", "credential", "auth", "sig", "code"];
    let name = name.to_ascii_lowercase();
    WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::redact;

    #[test]
    fn secrets_are_cut_and_the_rest_stays() {
        for (text, expected) in [
            ("no url at all: a@b ?token=1", "no url at all: a@b ?token=1"),
            ("https://host/path", "https://host/path"),
            ("amqp://u:p@h:5672/v and redis://:pw@h", "amqp://***@h:5672/v and redis://***@h"),
            ("https://h?X-Amz-Signature=ab&n=1", "https://h?X-Amz-Signature=***&n=1"),
            ("https://h/@name?q=a@b", "https://h/@name?q=a@b"),
            ("https://u:p@ss@h/", "https://***@h/"),
            ("\"https://h/?access_token=x\"", "\"https://h/?access_token=***\""),
            ("https://", "https://"),
            ("https://h/?key=ä&ü=ö#é", "https://h/?key=***&ü=ö#é"),
        ] {
            assert_eq!(redact(text), expected);
        }
    }
}
