//! A client of HTTP/3: aioquic in a program of its own (`tests/http3/client.py`), driven by lines.

use crate::answer::{Answer, Fields};
use crate::helper::source_root;
use crate::{Papers, started};
use base64::{Engine, prelude::BASE64_STANDARD as STANDARD};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// One connection.
pub struct H3 {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    authority: String,
    /// The error by which the server refused the handshake.
    pub refused: Option<u64>,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The method.
    pub method: &'a str,
    /// The target.
    pub path: &'a str,
    /// Fields beside the pseudo fields.
    pub fields: &'a [(&'a str, &'a str)],
    /// The body; None: the head ends the stream.
    pub body: Option<&'a [u8]>,
}

impl<'a> Ask<'a> {
    /// A GET without fields.
    pub fn get(path: &'a str) -> Ask<'a> {
        Ask { method: "GET", path, fields: &[], body: None }
    }
}

impl H3 {
    /// Connects to 127.0.0.1 and trusts the authority of `papers`.
    #[track_caller]
    pub fn connect(addr: SocketAddr, papers: &Papers) -> H3 {
        H3::connect_with(addr, papers, &[])
    }

    /// A connection on which the test sends the bytes of streams itself.
    #[track_caller]
    pub fn bare(addr: SocketAddr, papers: &Papers) -> H3 {
        H3::connect_with(addr, papers, &["bare"])
    }

    /// The same with options of the client.
    #[track_caller]
    pub fn connect_with(addr: SocketAddr, papers: &Papers, options: &[&str]) -> H3 {
        let root = source_root();
        let mut command = Command::new("/usr/bin/python3");
        command.arg(root.join("tests/http3/client.py"));
        command.arg(addr.port().to_string()).arg("127.0.0.1").arg(papers.path("authority.pem"));
        command.args(options).env("PYTHONPATH", root.join("tests/.cache/http3"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = started::run(&mut command);
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let authority = format!("127.0.0.1:{}", addr.port());
        let mut client =
            H3 { child, stdin, stdout: BufReader::new(stdout), authority, refused: None };
        client.refused = client.line()["closed"]["code"].as_u64();
        client
    }

    #[track_caller]
    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the client ended: scripts/test-deps.sh installs what it needs");
        serde_json::from_str(&line).unwrap()
    }

    /// Gives a command and returns its result.
    #[track_caller]
    pub fn tell(&mut self, command: &Value) -> Value {
        writeln!(self.stdin, "{command}").unwrap();
        let result = self.line();
        assert_eq!(result["timeout"], Value::Null, "nothing came: {command}");
        result
    }

    fn asked(&self, ask: &Ask<'_>) -> Value {
        json!({
            "method": ask.method,
            "path": ask.path,
            "authority": self.authority,
            "fields": ask.fields,
            "body": ask.body.map(|body| STANDARD.encode(body)),
        })
    }

    /// Sends requests at the same time. Their answers, or the code of the reset.
    #[track_caller]
    pub fn all(&mut self, asks: &[Ask<'_>]) -> Vec<Result<Answer, u64>> {
        let requests: Vec<_> = asks.iter().map(|ask| self.asked(ask)).collect();
        let result = self.tell(&json!({ "do": "requests", "requests": requests }));
        let answers = result["answers"].as_array().expect("answers");
        answers.iter().map(|answer| read(answer, &result["closed"])).collect()
    }

    /// Sends a request and reads its answer.
    #[track_caller]
    pub fn ask(&mut self, ask: Ask<'_>) -> Answer {
        self.all(&[ask]).remove(0).expect("an answer")
    }

    /// The page at `path`.
    #[track_caller]
    pub fn get(&mut self, path: &str) -> Answer {
        self.ask(Ask::get(path))
    }

    /// Begins a request and returns its stream. `open`: more of the body follows.
    #[track_caller]
    pub fn begin(&mut self, ask: Ask<'_>, open: bool) -> u64 {
        let mut request = self.asked(&ask);
        request["open"] = open.into();
        self.begin_as(&request)
    }

    /// Begins a tunnel for another protocol (RFC 9220).
    #[track_caller]
    pub fn open(&mut self, protocol: &str, path: &str) -> u64 {
        let fields = [("sec-websocket-version", "13")];
        let ask = Ask { method: "CONNECT", path, fields: &fields, body: Some(b"") };
        let mut request = self.asked(&ask);
        request["open"] = true.into();
        request["protocol"] = protocol.into();
        self.begin_as(&request)
    }

    #[track_caller]
    fn begin_as(&mut self, request: &Value) -> u64 {
        let command = json!({ "do": "requests", "requests": [request], "begin": true });
        self.tell(&command)["streams"][0].as_u64().unwrap()
    }

    /// Sends more of a body.
    #[track_caller]
    pub fn send(&mut self, stream: u64, body: &[u8], end: bool) {
        self.tell(
            &json!({ "do": "send", "stream": stream, "body": STANDARD.encode(body), "end": end }),
        );
    }

    /// The whole answer on a stream, or the code of its reset.
    #[track_caller]
    pub fn end(&mut self, stream: u64) -> Result<Answer, u64> {
        read(&self.tell(&json!({ "do": "end", "stream": stream })), &Value::Null)
    }

    /// Sends the bytes of streams. Returns their numbers.
    #[track_caller]
    pub fn raw(&mut self, streams: &[Raw]) -> Vec<u64> {
        let streams: Vec<_> = streams.iter().map(Raw::told).collect();
        let result = self.tell(&json!({ "do": "raw", "streams": streams }));
        result["streams"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
    }

    /// More connections of this client, each of which begins these streams and reads nothing. Returns
    /// how many are open when everything is sent that the server takes.
    #[track_caller]
    pub fn crowd(&mut self, count: usize, streams: &[Raw]) -> u64 {
        let streams: Vec<_> = streams.iter().map(Raw::told).collect();
        let command = json!({ "do": "crowd", "count": count, "streams": streams });
        self.tell(&command)["open"].as_u64().unwrap()
    }

    /// The code by which the server closes the connection.
    #[track_caller]
    pub fn closed(&mut self) -> u64 {
        self.tell(&json!({ "do": "closed" }))["code"].as_u64().unwrap()
    }
}

/// Bytes of a stream.
#[derive(Clone, Debug, Default)]
pub struct Raw {
    /// It goes one way only.
    pub uni: bool,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// They are all.
    pub end: bool,
    /// Its number, where it was begun before.
    pub number: Option<u64>,
    /// It is reset behind them, with this code.
    pub reset: Option<u64>,
    /// The answer is not wanted, for this reason: STOP_SENDING comes with the bytes.
    pub stop: Option<u64>,
}

impl Raw {
    /// A whole request.
    pub fn request(bytes: impl Into<Vec<u8>>) -> Raw {
        Raw { bytes: bytes.into(), end: true, ..Raw::default() }
    }

    /// The beginning of a unidirectional stream.
    pub fn uni(bytes: impl Into<Vec<u8>>) -> Raw {
        Raw { uni: true, bytes: bytes.into(), ..Raw::default() }
    }

    fn told(&self) -> Value {
        let hex: String = self.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        json!({
            "uni": self.uni,
            "bytes": hex,
            "end": self.end,
            "number": self.number,
            "reset": self.reset,
            "stop": self.stop,
        })
    }
}

/// A frame of this type.
pub fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap() | 0x8000_0000;
    [&[kind][..], &length.to_be_bytes(), payload].concat()
}

/// A HEADERS frame with these fields, none of which is in a table.
pub fn head(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = vec![0, 0];
    for (name, value) in fields {
        // Literal names have a prefix of three bits, values one of seven.
        number(name.len(), 7, 0x20, &mut section);
        section.extend_from_slice(name.as_bytes());
        number(value.len(), 127, 0, &mut section);
        section.extend_from_slice(value.as_bytes());
    }
    frame(1, &section)
}

fn number(value: usize, most: usize, flags: u8, out: &mut Vec<u8>) {
    let Some(mut rest) = value.checked_sub(most) else {
        return out.push(flags | u8::try_from(value).unwrap());
    };
    out.push(flags | u8::try_from(most).unwrap());
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[track_caller]
fn read(told: &Value, closed: &Value) -> Result<Answer, u64> {
    if let Some(code) = told["reset"].as_u64().or(closed["code"].as_u64()) {
        return Err(code);
    }
    let pairs = |fields: &Value| {
        let pair = |pair: &Value| {
            let text = |at: usize| pair[at].as_str().unwrap().to_owned();
            (text(0), text(1))
        };
        Fields(fields.as_array().unwrap().iter().map(pair).collect())
    };
    let interim =
        |status: &Value| (u16::try_from(status.as_u64().unwrap()).unwrap(), Fields::default());
    let status = u16::try_from(told["status"].as_u64().expect("a status")).unwrap();
    Ok(Answer {
        status_line: format!("HTTP/3 {status}"),
        status,
        fields: pairs(&told["fields"]),
        body: STANDARD.decode(told["body"].as_str().unwrap()).unwrap(),
        trailers: pairs(&told["trailers"]),
        chunked: false,
        interim: told["interim"].as_array().unwrap().iter().map(interim).collect(),
    })
}

impl Drop for H3 {
    fn drop(&mut self) {
        started::end(&mut self.child);
    }
}
