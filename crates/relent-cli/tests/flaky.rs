//! `relent flaky` as a whole process.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use support::{Place, stderr, stdout};

/// A server that is ended with the test.
struct Server {
    child: Child,
    out: BufReader<ChildStdout>,
    address: String,
}

impl Server {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let address = match line.strip_prefix("listening at http://") {
            Some(address) => address.trim().to_owned(),
            None => {
                let line: Value = serde_json::from_str(&line).unwrap();
                assert_eq!((&line["v"], &line["event"]), (&1.into(), &"listening".into()));
                assert_eq!(line["url"], format!("http://{}", line["address"].as_str().unwrap()));
                line["address"].as_str().unwrap().to_owned()
            }
        };
        Self { child, out, address }
    }

    /// What the server answers, to the end of the connection.
    fn ask(&self, request: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let head =
            format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all((head + body).as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    fn status(&self, path: &str) -> String {
        self.ask(&format!("GET {path}"), "").split(' ').nth(1).unwrap_or("none").to_owned()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// The exit code, and what was left on standard output and error.
    fn end(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (self.child.wait().unwrap().code(), out, err)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_tells_its_address_follows_the_script_and_ends_by_itself() {
    let place = Place::new("flaky");
    let script = "503*2,429(retry-after=1),reset,slow(1ms),200";
    let server = Server::start(&mut place.relent(&["flaky", "--script", script, "--max-requests", "6"]));
    let statuses: Vec<String> = (0..6).map(|_| server.status("/a")).collect();
    assert_eq!(statuses, ["503", "503", "429", "none", "200", "200"]);
    let (code, out, err) = server.end();
    assert_eq!((code, out.as_str()), (Some(0), ""));
    let lines: Vec<&str> = err.lines().collect();
    assert!(lines[3].ends_with("GET /a #4  reset") && lines[4].ends_with("200 after 1ms"), "{err}");
    assert_eq!(lines[6], "ended (requests): 6 requests: 2 x 200, 1 x 429, 2 x 503, 1 x reset");
    assert!(!err.contains('\x1b'), "a pipe is no terminal: {err}");
}

#[test]
fn signals_end_it_when_requests_are_answered() {
    let place = Place::new("flaky-signals");
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let server = Server::start(&mut place.relent(&["flaky", "--script", "slow(100ms)", "--json"]));
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        // It was read once it is counted.
        while !server.ask("GET /_flaky/counters", "").contains("\"requests\": 1") {}
        server.signal(signal);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        let (code, out, err) = server.end();
        assert_eq!((code, err.as_str()), (Some(0), ""));
        assert!(out.lines().last().unwrap().contains(&format!("\"reason\":\"{signal}\"")), "{out}");
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let place = Place::new("flaky-impatient");
    let mut server = Server::start(&mut place.relent(&["flaky", "--script", "slow(1m)", "--quiet"]));
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    while !server.ask("GET /_flaky/counters", "").contains("\"requests\": 1") {}
    let begun = std::time::Instant::now();
    server.signal(Signal::SIGTERM);
    // The first one has arrived when nobody is let in any more.
    while TcpStream::connect(&server.address).is_ok() {}
    server.signal(Signal::SIGTERM);
    let status = server.child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
    assert!(begun.elapsed().as_secs() < 5, "the requests were waited for");
}

#[test]
fn json_lines_tell_everything() {
    let place = Place::new("flaky-json");
    let args = ["flaky", "--json", "--max-requests", "3", "--script", "close(done),200", "--keys", "ignore"];
    let server = Server::start(&mut place.relent(&args));
    for _ in 0..3 {
        server.ask("POST /orders", "body");
    }
    let (code, out, err) = server.end();
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    let (first, second, ended) = (&lines[0], &lines[1], &lines[3]);
    assert_eq!(
        (&first["event"], &first["v"], &first["path"]),
        (&"request".into(), &1.into(), &"/orders".into())
    );
    assert_eq!(
        (&first["answer"], &first["status"], &first["done"]),
        (&"close".into(), &Value::Null, &"effect".into())
    );
    assert_eq!((&second["answer"], &second["done"]), (&"200".into(), &"duplicate".into()));
    assert_eq!(first["body_hash"], second["body_hash"]);
    assert_eq!((&ended["event"], &ended["reason"]), (&"ended".into(), &"requests".into()));
    assert_eq!(ended["counters"]["duplicates"]["without_key"], 2);
}

#[test]
fn the_same_seed_gives_the_same_answers() {
    let place = Place::new("flaky-seed");
    let answers = |seed: &str| {
        let args = ["flaky", "--fail", "0.5", "--seed", seed, "--latency", "uniform(0s,1ms)", "--json"];
        let server = Server::start(&mut place.relent(&[&args[..], &["--max-requests", "30"]].concat()));
        for _ in 0..30 {
            server.status("/");
        }
        let (_, out, _) = server.end();
        let lines = out.lines().filter(|line| line.contains("\"request\""));
        let fate = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            (line["answer"].clone(), line["wait_ms"].clone())
        };
        lines.map(fate).collect::<Vec<_>>()
    };
    let first = answers("7");
    assert_eq!(first.len(), 30);
    assert_eq!(first, answers("7"));
    assert_ne!(first, answers("8"));
}

#[test]
fn a_file_says_it_all_and_options_go_before_it() {
    let place = Place::new("flaky-file");
    let file = "version = 1\n[flaky]\nscript = '404'\n[flaky.paths]\n'/a' = '503,200'\n'POST /b*' = '201'\n";
    place.write("flaky.toml", file);
    let server = Server::start(&mut place.relent(&["flaky", "--file", "flaky.toml", "--path", "/c=418"]));
    let statuses = ["/a", "/a", "/b", "/c", "/d"].map(|path| server.status(path));
    assert_eq!(statuses, ["503", "200", "404", "418", "404"]);
    assert!(server.ask("POST /bc", "").starts_with("HTTP/1.1 201"));
    assert_eq!(server.ask("POST /_flaky/script", "500").split(' ').nth(1), Some("204"));
    assert_eq!(server.status("/d"), "500");
}

#[test]
fn what_makes_no_sense_is_refused_with_the_place() {
    let place = Place::new("flaky-refused");
    let bad = "version = 1\n[flaky]\nscript = '503*2,rset'\nfail = 2\nlatencies = '1s'\noutages = '1s..2s'\n\
        [flaky.paths]\n'a' = '200'\n";
    place.write("flaky.toml", bad);
    let cases: [(&[&str], &str); 12] = [
        (
            &["--script", "503*2,rset"],
            "error: --script: column 7: unknown step \"rset\": did you mean \"reset\"?\n  503*2,rset\n        ^^^^\n",
        ),
        (&["--path", "/a"], "--path: \"/a\" has no script"),
        (&["--path", "a=200"], "expected /path, /prefix* or METHOD /path"),
        (&["--path", "/a=20"], "--path /a: column 1: \"20\" is no status"),
        (&["--latency", "normal(1s)"], "--latency: column 1: unknown law \"normal\""),
        (&["--outage", "20s..10s"], "--outage: column 6: the outage ends before it begins"),
        (&["--capacity", "much"], "--capacity: column 1: expected requests per time such as 50/s"),
        (&["--fail", "1.5"], "--fail: 1.5 is no share"),
        (&["--admin", "/"], "--admin: all requests would go there"),
        (&["--listen", "8080"], "--listen 8080:"),
        (&["--per", "host"], "expected path, all, client, key or header:NAME"),
        (
            &["--file", "flaky.toml"],
            "`flaky.script`: column 7: unknown step \"rset\": did you mean \"reset\"?\n --> flaky.toml:3:10",
        ),
    ];
    for (args, told) in cases {
        let complaint = stderr(&mut place.relent(&[&["flaky"], args].concat()), 2);
        assert!(complaint.contains(told), "{args:?}: {complaint}");
    }
    let complaint = stderr(&mut place.relent(&["flaky", "--file", "flaky.toml"]), 2);
    for told in
        ["flaky.toml:4:8", "flaky.toml:5:1", "did you mean `latency`?", "flaky.toml:6:11", "\"a\" is no path"]
    {
        assert!(complaint.contains(told), "{told}: {complaint}");
    }
}

#[test]
fn a_port_that_is_taken_is_a_failure() {
    let place = Place::new("flaky-taken");
    let server = Server::start(&mut place.relent(&["flaky"]));
    let complaint = stderr(&mut place.relent(&["flaky", "--listen", &server.address]), 1);
    assert!(complaint.contains(&format!("cannot listen at {}", server.address)), "{complaint}");
    let missing = stderr(&mut place.relent(&["flaky", "--file", "none.toml"]), 1);
    assert!(missing.contains("cannot read none.toml"), "{missing}");
}

#[test]
fn it_ends_after_a_time_and_a_reader_may_leave() {
    let place = Place::new("flaky-time");
    let mut command = place.relent(&["flaky", "--for", "1ms", "--json"]);
    let (code, out, _) = Server::start(&mut command).end();
    assert_eq!(code, Some(0));
    assert!(out.contains("\"reason\":\"time\""), "{out}");
    // Whoever only reads the address closes the pipe.
    let mut server = Server::start(&mut place.relent(&["flaky", "--json"]));
    let null = std::fs::File::open("/dev/null").unwrap();
    let other = Command::new("true").stdin(null).stdout(Stdio::piped()).spawn().unwrap().stdout.unwrap();
    server.out = BufReader::new(other);
    for _ in 0..20 {
        assert_eq!(server.status("/"), "200");
    }
    server.signal(Signal::SIGTERM);
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn what_clients_send_cannot_disturb_the_terminal() {
    let place = Place::new("flaky-harmless");
    let mut command = place.relent(&["flaky", "--color", "always", "--max-requests", "1"]);
    let server = Server::start(&mut command);
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let head = b"GET / HTTP/1.1\r\nhost: x\r\nidempotency-key: \xc2\x9b31m\xff\r\nconnection: close\r\n\r\n";
    stream.write_all(head).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    let (_, _, err) = server.end();
    assert!(err.contains("\x1b[") && err.contains("key \\u{9b}31m\u{fffd}"), "{err:?}");
    assert!(!err.contains('\u{9b}'), "{err:?}");
}

#[test]
fn its_page_and_its_options_come_from_one_definition() {
    let place = Place::new("flaky-help");
    assert!(stdout(&mut place.relent(&["flaky", "--help"]), 0).contains("--script <SCRIPT>"));
    assert!(stdout(&mut place.relent(&["man", "flaky"]), 0).contains(".TH relent-flaky 1"));
    assert!(stdout(&mut place.relent(&["completions", "bash"]), 0).contains("--max-requests"));
}

/// The page on the program shows what it does.
#[test]
fn the_page_is_true() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/flaky.md");
    let page = std::fs::read_to_string(page).unwrap();
    let place = Place::new("flaky-page");
    // Each step of the table is read by the program.
    let steps: Vec<&str> = page
        .lines()
        .skip_while(|line| *line != "| step | what happens |")
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .flat_map(|line| line.split('|').nth(1).unwrap().split('`').skip(1).step_by(2))
        .collect();
    assert!(steps.len() > 15, "{steps:?}");
    for step in steps {
        let step = step.replace("CODE", "cancel").replace("(N)", "(5)");
        let script = if step == "loop" { "503,loop".to_owned() } else { step };
        let args = ["flaky", "--quiet", "--for", "1ms", "--script", &script];
        let out = place.relent(&args).output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{script}: {}", String::from_utf8_lossy(&out.stderr));
    }
    // So is its file.
    let file = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    place.write("flaky.toml", file);
    stdout_of_success(&mut place.relent(&["flaky", "--quiet", "--for", "1ms", "--file", "flaky.toml"]));
    // And each option is told.
    let help = stdout(&mut place.relent(&["flaky", "--help"]), 0);
    let options = help.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2);
    for option in options.filter(|option| !option.contains(['\'', '=', ','])) {
        let known = ["--color", "--help", "--tls"].contains(&option) || page.contains(option);
        assert!(known, "{option} is not on the page");
    }
}

fn stdout_of_success(command: &mut Command) {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}
