//! A client that hides nothing.

#![allow(dead_code, reason = "each user needs some of it")]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub(crate) struct Client {
    pub(crate) stream: BufReader<TcpStream>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// How a connection ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Reset,
    Eof(String),
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        // A test that hangs says nothing.
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    /// Until the port is open again.
    pub(crate) fn connect_patiently(address: SocketAddr) -> Self {
        loop {
            match TcpStream::connect(address) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                    return Self { stream: BufReader::new(stream) };
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionRefused),
            }
            std::thread::yield_now();
        }
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
        self.read()
    }

    /// `None`: the connection ended without an answer.
    pub(crate) fn post(&mut self, path: &str, headers: &str, body: &str) -> Option<Answer> {
        let length = body.len();
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        ));
        if self.stream.fill_buf().unwrap().is_empty() { None } else { Some(self.read()) }
    }

    /// Sends a request and reads to the end of the connection.
    pub(crate) fn ends(&mut self, path: &str) -> Ended {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
        let mut text = Vec::new();
        match self.stream.read_to_end(&mut text) {
            Ok(_) => Ended::Eof(String::from_utf8_lossy(&text).into_owned()),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ended::Reset,
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) fn read_head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let before = head.len();
            self.stream.read_until(b'\n', &mut head).unwrap();
            assert_ne!(head.len(), before, "the connection ended");
        }
        String::from_utf8(head).unwrap()
    }

    pub(crate) fn read(&mut self) -> Answer {
        let head = self.read_head();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer { status, head, body: String::new() };
        if answer.header("transfer-encoding") == Some("chunked") {
            loop {
                let mut line = String::new();
                self.stream.read_line(&mut line).unwrap();
                let length = usize::from_str_radix(line.trim(), 16).unwrap();
                let mut chunk = vec![0; length + 2];
                self.stream.read_exact(&mut chunk).unwrap();
                if length == 0 {
                    return answer;
                }
                answer.body.push_str(std::str::from_utf8(&chunk[..length]).unwrap());
            }
        }
        let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        answer.body = String::from_utf8(body).unwrap();
        answer
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}
