//! Reads the script language.

use std::ops::Range;
use std::time::Duration;

use relent_config::parse_duration;

use crate::script::{After, Script, ScriptError};
use crate::step::{DateForm, Step, StreamError, Value, What};

/// The longest script, in bytes.
const MAX_TEXT: usize = 64 * 1024;

/// The most steps of a script, each with its repetitions counted once.
const MAX_STEPS: usize = 1000;

/// The most digits that `digits(n)` makes: longer lines are refused by most clients before they look at them.
const MAX_DIGITS: u64 = 4000;

/// The words for steps, besides statuses.
const STEPS: &[&str] = &[
    "close",
    "cut",
    "garbage",
    "goaway",
    "hang",
    "loop",
    "raw",
    "refuse",
    "refused-stream",
    "reset",
    "rst-stream",
    "slow",
    "stall",
];

/// What an answer can be given besides headers.
const ANSWER_OPTIONS: &[&str] = &["body", "chunked", "cut", "delay", "done", "over", "size", "stall"];

const FAULT_OPTIONS: &[&str] = &["delay", "done"];

/// What makes values.
const MAKERS: &[&str] = &["asctime", "date", "digits", "epoch", "rfc850"];

pub(crate) fn script(text: &str, after: After) -> Result<Script, ScriptError> {
    Reader { text, at: 0 }.script(after).map_err(|wrong| wrong.of(text))
}

pub(crate) fn step(text: &str) -> Result<Step, ScriptError> {
    let mut reader = Reader { text, at: 0 };
    reader.only_step().map_err(|wrong| wrong.of(text))
}

/// What is wrong, and the bytes that are.
struct Wrong(String, Range<usize>);

impl Wrong {
    fn of(self, text: &str) -> ScriptError {
        ScriptError { message: self.0, span: self.1, text: text.to_owned() }
    }
}

enum Item {
    Step(Step, u64),
    /// From here on, always.
    Always(Step, Range<usize>),
    Loop(Range<usize>),
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

/// `name=value`, or a value alone.
struct Argument<'a> {
    name: Option<&'a str>,
    name_span: Range<usize>,
    value: Option<Given>,
    span: Range<usize>,
}

enum Given {
    Text(String),
    Made(Value),
}

impl<'a> Reader<'a> {
    fn script(&mut self, after: After) -> Result<Script, Wrong> {
        if self.text.len() > MAX_TEXT {
            return Err(Wrong(format!("a script has at most {MAX_TEXT} bytes"), 0..self.text.len().min(1)));
        }
        let mut script: Option<Script> = None;
        let mut count = 0;
        loop {
            self.skip_space();
            // A trailing comma makes lists easier to edit.
            if let Some(script) = script.take_if(|_| self.rest().is_empty()) {
                return Ok(script.after(after));
            }
            let start = self.at;
            let (item, border) = self.item()?;
            count += 1;
            if count > MAX_STEPS {
                return Err(Wrong(format!("a script has at most {MAX_STEPS} steps"), start..self.at));
            }
            self.comma(border)?;
            let (step, times, ending) = match item {
                Item::Step(step, times) => (step, times, None),
                Item::Always(step, star) => (step, 1, Some((After::Last, star))),
                Item::Loop(word) => {
                    self.end("what follows the loop never happens", &word)?;
                    let nothing = || Wrong("there is nothing to repeat yet".to_owned(), word.clone());
                    return script.map(|script| script.after(After::Loop)).ok_or_else(nothing);
                }
            };
            let longer = match script {
                None => Script::new(step),
                Some(script) => script.then(step),
            };
            let longer = longer.repeat(times);
            if let Some((ending, star)) = ending {
                self.end(
                    "what follows a step that repeats for ever never happens: give a number, such as *3",
                    &star,
                )?;
                return Ok(longer.after(ending));
            }
            script = Some(longer);
        }
    }

    /// A step with its repetition, or the loop; and where it ends, without the space behind it.
    fn item(&mut self) -> Result<(Item, usize), Wrong> {
        let start = self.at;
        let step = match self.word() {
            "loop" => None,
            _ => {
                self.at = start;
                Some(self.step()?)
            }
        };
        let mut border = self.at;
        self.skip_space();
        let star = self.at..self.at + 1;
        if !self.take('*') {
            return Ok((step.map_or(Item::Loop(start..border), |step| Item::Step(step, 1)), border));
        }
        let Some(step) = step else { return Err(Wrong("the loop has no end already".to_owned(), star)) };
        self.skip_space();
        let number = self.at;
        let digits = self.run(|letter| letter.is_ascii_alphanumeric());
        border = self.at;
        match digits.parse() {
            _ if digits.is_empty() => Ok((Item::Always(step, star), border)),
            Ok(0) => Err(Wrong("0 times is never: leave the step out".to_owned(), number..border)),
            Ok(times) => Ok((Item::Step(step, times), border)),
            Err(_) => Err(Wrong("expected how often, such as *3".to_owned(), number..border)),
        }
    }

    fn comma(&mut self, border: usize) -> Result<(), Wrong> {
        self.skip_space();
        if self.take(',') || self.rest().is_empty() {
            return Ok(());
        }
        let hint = match self.rest().chars().next() {
            Some('x' | 'X' | '×') if self.at == border => ": repetition is written 503*2",
            Some(';' | '|' | '>') => ": steps are separated by commas",
            _ => "",
        };
        Err(Wrong(format!("expected a comma, *COUNT or the end{hint}"), self.next_span()))
    }

    /// Nothing may follow `span`.
    fn end(&mut self, otherwise: &str, span: &Range<usize>) -> Result<(), Wrong> {
        self.skip_space();
        if self.rest().is_empty() { Ok(()) } else { Err(Wrong(otherwise.to_owned(), span.clone())) }
    }

    fn only_step(&mut self) -> Result<Step, Wrong> {
        if self.text.len() > MAX_TEXT {
            return Err(Wrong(format!("a step has at most {MAX_TEXT} bytes"), 0..0));
        }
        self.skip_space();
        let step = self.step()?;
        self.skip_space();
        if self.rest().is_empty() {
            return Ok(step);
        }
        Err(Wrong("one step is enough here".to_owned(), self.at..self.text.len()))
    }

    fn step(&mut self) -> Result<Step, Wrong> {
        let start = self.at;
        let word = self.word();
        if word.is_empty() {
            let what = "expected a status such as 503, or a word such as reset".to_owned();
            return match self.rest().is_empty() {
                true => Err(self.nothing()),
                false => Err(Wrong(what, self.next_span())),
            };
        }
        let span = start..self.at;
        let mut arguments = self.arguments()?.into_iter().peekable();
        // An unnamed value that comes first belongs to the word.
        let mut own = || arguments.next_if(|argument| argument.name.is_none());
        let step = match word {
            number if number.starts_with(|letter: char| letter.is_ascii_digit()) => status(number, &span)?,
            "slow" => {
                let delay = own().ok_or_else(|| Wrong("how slow? slow(2s)".to_owned(), span.clone()))?;
                let step = match own() {
                    Some(second) => status(second.text()?, &second.span)?,
                    None => Step::status(200),
                };
                step.delay(delay.duration()?)
            }
            "cut" | "stall" => {
                let at = own().map_or(Ok(32), |argument| argument.count())?;
                let step = Step::status(200).size(at.saturating_mul(2).max(1));
                if word == "cut" { step.cut(at) } else { step.stall(at) }
            }
            "reset" => Step::reset(),
            "close" => Step::close(),
            "hang" => match own() {
                Some(time) => Step::close().delay(time.duration()?),
                None => Step::hang(),
            },
            "refuse" => {
                let time = own().ok_or_else(|| Wrong("for how long? refuse(2s)".to_owned(), span.clone()))?;
                Step::refuse(time.duration()?)
            }
            "garbage" => Step::garbage(),
            "raw" => {
                let text = own().ok_or_else(|| Wrong("which bytes? raw(\"…\")".to_owned(), span.clone()))?;
                Step::raw(bytes_of(text.text()?))
            }
            "goaway" => Step::go_away(),
            "refused-stream" => Step::reset_stream(StreamError::Refused),
            "rst-stream" => {
                let names = StreamError::ALL.map(StreamError::as_str);
                let wanted = || format!("with which code? {}", one_of(&names));
                let code = own().ok_or_else(|| Wrong(wanted(), span.clone()))?;
                let name = code.text()?.to_ascii_lowercase().replace('-', "_");
                let known = StreamError::ALL.into_iter().find(|code| code.as_str() == name);
                Step::reset_stream(known.ok_or_else(|| unknown("code", &name, &names, &code.span))?)
            }
            "loop" => return Err(Wrong("loop comes last and alone".to_owned(), span)),
            other => return Err(unknown("step", other, STEPS, &span)),
        };
        arguments.try_fold(step, |step, argument| argument.apply(step, word))
    }

    fn arguments(&mut self) -> Result<Vec<Argument<'a>>, Wrong> {
        let open = self.at;
        let mut arguments = Vec::new();
        if !self.take('(') {
            return Ok(arguments);
        }
        loop {
            self.skip_space();
            if self.take(')') {
                return Ok(arguments);
            }
            if self.rest().is_empty() {
                return Err(Wrong("this parenthesis is never closed".to_owned(), open..open + 1));
            }
            arguments.push(self.argument()?);
            self.skip_space();
            if !self.take(',') && !self.rest().is_empty() && !self.rest().starts_with(')') {
                return Err(Wrong("expected a comma or a closing parenthesis".to_owned(), self.next_span()));
            }
        }
    }

    fn argument(&mut self) -> Result<Argument<'a>, Wrong> {
        let start = self.at;
        let word = self.run(|letter| http_token(letter) && letter != '*');
        let name_span = start..self.at;
        self.skip_space();
        if self.take('=') {
            self.skip_space();
            let at = self.at;
            let value = self.value()?;
            if name_span.is_empty() {
                return Err(Wrong("expected a name before the =".to_owned(), start..start + 1));
            }
            return Ok(Argument { name: Some(word), name_span, value: Some(value), span: at..self.at });
        }
        self.at = start;
        let is_flag = matches!(word, "chunked" | "done");
        let value = self.value()?;
        let name = is_flag.then_some(word);
        let value = (!is_flag).then_some(value);
        Ok(Argument { name, name_span, value, span: start..self.at })
    }

    /// `"quoted"`, `'quoted'`, `date(5s)`, or all up to the next comma or parenthesis.
    fn value(&mut self) -> Result<Given, Wrong> {
        if let Some(quote @ ('"' | '\'')) = self.rest().chars().next() {
            return self.quoted(quote).map(Given::Text);
        }
        let start = self.at;
        let bare = self.run(|letter| !matches!(letter, ',' | '(' | ')' | '"')).trim_end();
        let span = start..start + bare.len();
        if self.take('(') {
            let inner = self.at;
            let argument = self.run(|letter| !matches!(letter, ',' | '(' | ')'));
            let inner = inner..self.at;
            if !self.take(')') {
                return Err(Wrong("this parenthesis is never closed".to_owned(), span.end..span.end + 1));
            }
            return made(bare, &span, argument.trim(), &inner).map(Given::Made);
        }
        self.at = span.end;
        if bare.is_empty() {
            return Err(Wrong("expected a value".to_owned(), self.next_span()));
        }
        Ok(Given::Text(bare.to_owned()))
    }

    fn quoted(&mut self, quote: char) -> Result<String, Wrong> {
        let start = self.at;
        self.take(quote);
        let mut text = String::new();
        loop {
            let at = self.at;
            let Some(letter) = self.next() else {
                return Err(Wrong("this quote is never closed".to_owned(), start..start + 1));
            };
            if letter == quote {
                return Ok(text);
            }
            if letter != '\\' {
                text.push(letter);
                continue;
            }
            let escaped = match self.next() {
                Some('n') => Some('\n'),
                Some('r') => Some('\r'),
                Some('t') => Some('\t'),
                Some('0') => Some('\0'),
                Some(letter @ ('\\' | '"' | '\'')) => Some(letter),
                Some('x') => {
                    let digits = self.rest().get(..2);
                    let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                    self.at += if byte.is_some() { 2 } else { 0 };
                    byte.map(char::from)
                }
                _ => None,
            };
            match escaped {
                Some(letter) => text.push(letter),
                None => {
                    let what = "unknown escape: there are \\n, \\r, \\t, \\0, \\\\, \\\", \\' and \\xHH";
                    return Err(Wrong(what.to_owned(), at..self.at));
                }
            }
        }
    }

    fn word(&mut self) -> &'a str {
        self.run(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_'))
    }

    fn run(&mut self, holds: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let run = rest.get(..rest.find(|letter| !holds(letter)).unwrap_or(rest.len())).unwrap_or_default();
        self.at += run.len();
        run
    }

    fn skip_space(&mut self) {
        self.run(char::is_whitespace);
    }

    fn take(&mut self, letter: char) -> bool {
        let taken = self.rest().starts_with(letter);
        self.at += if taken { letter.len_utf8() } else { 0 };
        taken
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.rest().chars().next()?;
        self.at += letter.len_utf8();
        Some(letter)
    }

    fn next_span(&self) -> Range<usize> {
        self.at..self.at + self.rest().chars().next().map_or(0, char::len_utf8)
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn nothing(&self) -> Wrong {
        let what = "expected a step: a status such as 503, or a word such as reset";
        Wrong(what.to_owned(), self.at..self.at)
    }
}

impl Argument<'_> {
    fn apply(self, step: Step, word: &str) -> Result<Step, Wrong> {
        let is_answer = matches!(step.what, What::Answer(_));
        let Some(name) = self.name else {
            let what = format!("{word} takes no value here: expected NAME=VALUE");
            return Err(Wrong(what, self.span));
        };
        match name {
            "delay" => self.duration().map(|time| step.delay(time)),
            "done" if self.value.is_none() => Ok(step.carried_out()),
            "done" => Err(Wrong("done takes no value".to_owned(), self.span)),
            _ if !is_answer => Err(unknown("option", name, FAULT_OPTIONS, &self.name_span)),
            "body" => self.text().map(|text| step.body(bytes_of(text))),
            "size" => self.count().map(|size| step.size(size)),
            "chunked" if self.value.is_none() => Ok(step.chunked()),
            "chunked" => Err(Wrong("chunked takes no value".to_owned(), self.span)),
            "over" => self.duration().map(|time| step.over(time)),
            "cut" => self.count().map(|after| step.cut(after)),
            "stall" => self.count().map(|after| step.stall(after)),
            // Everything else is a header; what is nearly an option of ours is more probably that.
            header => match nearest(header, ANSWER_OPTIONS) {
                Some(near) => Err(Wrong(
                    format!("unknown option \"{header}\": did you mean \"{near}\"?"),
                    self.name_span,
                )),
                None => {
                    let value = match self.value {
                        Some(Given::Made(value)) => value,
                        Some(Given::Text(text)) => Value::Text(text),
                        None => return Err(Wrong("expected NAME=VALUE".to_owned(), self.span)),
                    };
                    Ok(step.answer(|answer| answer.headers.push((header.to_owned(), value))))
                }
            },
        }
    }

    fn text(&self) -> Result<&str, Wrong> {
        match &self.value {
            Some(Given::Text(text)) => Ok(text),
            _ => Err(Wrong("expected a plain value".to_owned(), self.span.clone())),
        }
    }

    fn duration(&self) -> Result<Duration, Wrong> {
        let text = self.text()?;
        parse_duration(text).map_err(|error| Wrong(error.to_string(), self.span.clone()))
    }

    fn count(&self) -> Result<u64, Wrong> {
        let text = self.text()?;
        text.parse().map_err(|_| {
            Wrong(format!("expected a number of bytes, not \"{}\"", shown(text)), self.span.clone())
        })
    }
}

fn status(text: &str, span: &Range<usize>) -> Result<Step, Wrong> {
    match text.parse::<u16>() {
        Ok(status @ 200..=999) => Ok(Step::status(status)),
        Ok(status @ 100..=199) => {
            let what = format!("{status} is no final answer: expected a status from 200 to 999");
            Err(Wrong(what, span.clone()))
        }
        _ => {
            let hint = match text.split_once(['x', 'X']) {
                Some((status, count)) if status.len() == 3 && !count.is_empty() => {
                    format!(": repetition is written {status}*{count}")
                }
                _ => ": expected a number from 200 to 999".to_owned(),
            };
            Err(Wrong(format!("\"{}\" is no status{hint}", shown(text)), span.clone()))
        }
    }
}

fn made(maker: &str, span: &Range<usize>, argument: &str, inner: &Range<usize>) -> Result<Value, Wrong> {
    let offset = || {
        let (sign, text) = match argument.strip_prefix('-') {
            Some(text) => (-1, text),
            None => (1, argument.strip_prefix('+').unwrap_or(argument)),
        };
        let time = parse_duration(text).map_err(|error| Wrong(error.to_string(), inner.clone()))?;
        Ok(i64::try_from(time.as_secs()).unwrap_or(i64::MAX) * sign)
    };
    match maker {
        "date" => Ok(Value::Date(DateForm::Imf, offset()?)),
        "rfc850" => Ok(Value::Date(DateForm::Rfc850, offset()?)),
        "asctime" => Ok(Value::Date(DateForm::Asctime, offset()?)),
        "epoch" => Ok(Value::Epoch(offset()?)),
        "digits" => match argument.parse::<u64>() {
            Ok(count @ 1..=MAX_DIGITS) => Ok(Value::Digits(count as u16)),
            _ => Err(Wrong(format!("expected how many digits, from 1 to {MAX_DIGITS}"), inner.clone())),
        },
        other => Err(unknown("value", other, MAKERS, span)),
    }
}

/// Letters up to U+00FF as one byte each, so that `\xff` is what it says; others as UTF-8.
fn bytes_of(text: &str) -> Vec<u8> {
    match text.chars().map(|letter| u8::try_from(u32::from(letter)).ok()).collect() {
        Some(bytes) => bytes,
        None => text.as_bytes().to_vec(),
    }
}

fn unknown(kind: &str, word: &str, known: &[&str], span: &Range<usize>) -> Wrong {
    let word = shown(word);
    let way_out = match nearest(&word, known) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("expected {}", one_of(known)),
    };
    let status = if kind == "step" && !way_out.starts_with("did") { "a status, " } else { "" };
    let way_out = way_out.replacen("expected ", &format!("expected {status}"), 1);
    Wrong(format!("unknown {kind} \"{word}\": {way_out}"), span.clone())
}

pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    if word.len() > 64 {
        return None;
    }
    let word = word.to_ascii_lowercase().replace('_', "-");
    let reach = (word.chars().count() / 3).clamp(1, 2);
    let distance = |name: &&str| strsim::osa_distance(&word, &name.replace('_', "-"));
    let near = known.iter().copied().min_by_key(distance)?;
    // A word that shares next to nothing with a short name is no slip.
    (distance(&near) <= reach && distance(&near) * 2 < near.len()).then_some(near)
}

pub(crate) fn one_of(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

/// A word of the text, safe to show.
pub(crate) fn shown(word: &str) -> String {
    let short: String = word.chars().take(40).flat_map(char::escape_debug).collect();
    if word.chars().count() > 40 { short + "…" } else { short }
}

/// RFC 9110 §5.6.2.
fn http_token(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        script(text, After::Last).unwrap_err().to_string()
    }

    #[test]
    fn all_steps_are_read() {
        let text = "200, 503(retry-after=1, body='busy'), slow(2s), slow(2s, 503), cut, cut(5), stall(5), reset,
            close(done), hang, hang(1s), refuse(2s), garbage, raw(\"HTTP/1.1 200 OK\\r\\n\\xff\\r\\n\"), goaway,
            refused-stream, rst-stream(cancel), 429(retry-after=rfc850(5s), date=date(-1h), x=digits(400)),
            200(size=100,chunked,over=1s,cut=50,delay=1ms,done),";
        let script = script(text, After::Last).unwrap();
        let labels: Vec<String> = (1..=script.len()).map(|n| script.step(n).label()).collect();
        let expected = "200 503 200 503 200+cut 200+cut 200+stall reset close hang close refuse garbage raw goaway \
            rst-stream+refused_stream rst-stream+cancel 429 200+cut";
        assert_eq!(labels.join(" "), expected);
        assert_eq!(script.step(9), &Step::close().carried_out());
        assert_eq!(script.step(11), &Step::close().delay(Duration::from_secs(1)));
        let raw = Step::raw(b"HTTP/1.1 200 OK\r\n\xff\r\n".to_vec());
        assert_eq!(script.step(14), &raw);
    }

    #[test]
    fn errors_point_at_the_place_and_name_what_is_known() {
        let cases = [
            ("", 1, "expected a step"),
            (" ", 2, "expected a step"),
            ("503,,200", 5, "expected a status such as 503"),
            ("503;200", 4, "steps are separated by commas"),
            ("503x2", 1, "repetition is written 503*2"),
            ("503 x2", 5, "expected a comma"),
            ("503*0", 5, "leave the step out"),
            ("503*two", 5, "expected how often"),
            ("503*99999999999999999999", 5, "expected how often"),
            ("200*,503", 4, "what follows a step that repeats for ever never happens"),
            ("loop", 1, "nothing to repeat"),
            ("503,loop,200", 5, "what follows the loop never happens"),
            ("503,loop*2", 9, "no end already"),
            ("99", 1, "no status"),
            ("1000", 1, "no status"),
            ("100", 1, "no final answer"),
            ("70000", 1, "no status"),
            ("wait(2s)", 1, "expected a status, close, cut, garbage"),
            ("resett", 1, "did you mean \"reset\"?"),
            ("slow", 1, "how slow? slow(2s)"),
            ("slow(2)", 6, "without a unit"),
            ("slow(2s, abc)", 10, "no status"),
            ("slow(2s", 5, "never closed"),
            ("slow(2s)(3s)", 9, "expected a comma"),
            ("refuse", 1, "for how long?"),
            ("raw", 1, "which bytes?"),
            ("rst-stream", 1, "with which code? protocol_error, internal_error"),
            ("rst-stream(oops)", 12, "unknown code \"oops\""),
            ("503(5)", 5, "503 takes no value here"),
            ("503(sizes=5)", 5, "did you mean \"size\"?"),
            ("503(size=x)", 10, "expected a number of bytes"),
            ("503(size=)", 10, "expected a value"),
            ("503(=5)", 5, "expected a name"),
            ("503(done=1)", 10, "done takes no value"),
            ("503(a=\"b)", 7, "quote is never closed"),
            ("503(a=\"\\q\")", 8, "unknown escape"),
            ("503(a=\"\\xg0\")", 8, "unknown escape"),
            ("503(a=now(5s))", 7, "unknown value \"now\": expected asctime, date"),
            ("503(a=date(5))", 12, "without a unit"),
            ("503(a=date(5s)", 4, "never closed"),
            ("503(a=digits(0))", 14, "from 1 to 4000"),
            ("reset(body=x)", 7, "unknown option \"body\""),
            ("503(body=date(1s))", 10, "expected a plain value"),
        ];
        for (text, column, message) in cases {
            let told = error(text);
            assert!(told.starts_with(&format!("column {column}: ")), "{text}: {told}");
            assert!(told.contains(message), "{text}: {told}");
        }
    }

    #[test]
    fn there_are_bounds() {
        assert!(error(&"2".repeat(MAX_TEXT + 1)).contains("at most 65536 bytes"));
        assert!(error(&"200,".repeat(MAX_STEPS + 1)).contains("at most 1000 steps"));
        assert!(script(&"200,".repeat(MAX_STEPS), After::Last).is_ok());
    }

    #[test]
    fn lines_are_counted_and_wide_letters_are_wide() {
        let told = error("503,\n200(body=\"日本\"), oops\n");
        assert_eq!(told.lines().next().unwrap().split(':').next(), Some("line 2, column 17"), "{told}");
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines[2].find('^'), Some(2 + 18), "{told}");
    }
}
