//! The server, spoken to byte by byte: windows are the steps of the trace, and nothing but the page is answered.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use unspool::Watch;
use unspool::coresight::Sink;
use unspool::model::{Event, StepSource as _};
use unspool_testing::Random;
use unspool_view::Viewer;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

/// A server, and where it is.
struct Served {
    host: String,
    path: String,
    _viewer: Viewer,
}

impl Served {
    fn new(traces: &[PathBuf]) -> Self {
        let viewer = Viewer::start(traces, &[], 0).unwrap();
        let address = viewer.address().strip_prefix("http://").unwrap().to_string();
        let (host, path) = address.split_once('/').unwrap();
        Self { host: host.to_string(), path: format!("/{path}"), _viewer: viewer }
    }

    /// Sends bytes and returns the status and the body of the answer; 0: the connection was closed without one.
    fn send(&self, bytes: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // A server that refuses early closes while we still write.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer).into_owned();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        (status, text.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_string()))
    }

    fn get(&self, path: &str) -> (u16, String) {
        let (host, base) = (&self.host, &self.path);
        self.send(format!("GET {base}{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes())
    }

    fn answer(&self, request: &str) -> Value {
        let (status, body) = self.get(&format!("api/{request}"));
        assert_eq!(status, 200, "{request}: {body}");
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{request}: {error}: {body}"))
    }

    /// Waits until nothing is done in the background.
    fn finish(&self) -> Value {
        let start = Instant::now();
        loop {
            let progress = self.answer("progress?t=0&s=0");
            if ["index", "calls", "findings", "lines"].iter().all(|job| progress[job]["state"] != "running") {
                return progress;
            }
            assert!(start.elapsed() < Duration::from_secs(120), "{progress}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Addresses of the executed instructions of the first source.
fn addresses(trace: &Path) -> Vec<u64> {
    let mut sources = unspool::open(trace).unwrap().step_sources().unwrap();
    let mut found = Vec::new();
    let steps = &mut sources[0].steps;
    steps
        .each(&mut |step| {
            if let Event::Instruction(instruction) = &step.event {
                found.push(instruction.address);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    found
}

#[test]
fn windows_are_the_steps_of_the_trace() {
    for name in ["hello-qemu", "hello-ete", "example.astf", "sum.tarmac"] {
        let trace = example(name);
        let (served, expected) = (Served::new(std::slice::from_ref(&trace)), addresses(&trace));
        assert_eq!(served.finish()["instructions"], expected.len(), "{name}");
        for (from, count) in [(1, 1000), (1, 3), (5, 7), (expected.len() as u64, 10), (expected.len() as u64 + 5, 10)] {
            let answer = served.answer(&format!("instructions?t=0&s=0&from={from}&count={count}"));
            let rows: Vec<_> = answer["rows"].as_array().unwrap().iter().collect();
            let wanted = expected.iter().zip(1_u64..).skip(from as usize - 1).take(count);
            let wanted: Vec<_> = wanted.map(|(address, number)| (number, format!("{address:#x}"))).collect();
            let found: Vec<_> = rows
                .iter()
                .map(|row| (row["n"].as_u64().unwrap(), row["address"].as_str().unwrap().to_string()))
                .collect();
            assert_eq!(found, wanted, "{name} {from} {count}");
            assert_eq!(answer["end"], from + count as u64 > expected.len() as u64, "{name} {from} {count}");
        }
    }
}

#[test]
fn times_are_those_of_the_rows() {
    let trace = example("sum.tarmac");
    let (served, count) = (Served::new(std::slice::from_ref(&trace)), addresses(&trace).len());
    served.finish();
    let rows = served.answer(&format!("instructions?t=0&s=0&from=1&count={count}"));
    let expected: Vec<&Value> = rows["rows"].as_array().unwrap().iter().map(|row| &row["time"]).collect();
    let times = served.answer(&format!("times?t=0&s=0&from=1&to={count}&buckets={count}"));
    assert!(times["times"].as_array().unwrap().iter().eq(expected.iter().copied()), "{times} {expected:?}");
    assert!(expected.iter().any(|time| time.is_string()));
}

#[test]
fn moves_follow_calls() {
    let trace = example("hello-qemu");
    let (served, all) = (Served::new(std::slice::from_ref(&trace)), addresses(&trace));
    served.finish();
    let step = |at: usize, how: &str| served.answer(&format!("step?t=0&s=0&at={at}&move={how}"))["n"].as_u64();
    // Every call returns to the instruction after it: over a call is at the next address, and back again.
    let mut over_calls = 0;
    for at in 1..all.len() {
        let Some(next) = step(at, "over") else { continue };
        assert!(next > at as u64);
        if next > at as u64 + 1 {
            over_calls += 1;
            assert_eq!(all[next as usize - 1], all[at - 1] + 4, "#{at}");
            assert_eq!(step(next as usize, "over_back"), Some(at as u64));
            assert_eq!(step(at + 1, "out"), Some(next));
            assert_eq!(step(next as usize - 1, "out_back"), Some(at as u64 + 1));
        }
    }
    let calls = served.answer("calls?t=0&s=0&from=1&to=1000&min=1&depth=0&depths=100&stack=all");
    // All but the root.
    assert_eq!(over_calls, calls["slices"].as_array().unwrap().len() - 1);
    let found = served.answer("find?t=0&s=0&from=1&direction=next&function=way")["n"].as_u64().unwrap();
    let stack = served.answer(&format!("stack?t=0&s=0&at={found}"));
    assert_eq!(
        (stack["frames"][0]["function"].as_str(), stack["frames"][0]["entry"].as_u64()),
        (Some("way"), Some(found))
    );
}

#[test]
fn searches_go_both_ways() {
    let trace = example("sum.tarmac");
    let (served, all) = (Served::new(std::slice::from_ref(&trace)), addresses(&trace));
    served.finish();
    for (number, address) in (1..).zip(&all) {
        let find = |from: usize, direction: &str| {
            served.answer(&format!("find?t=0&s=0&from={from}&direction={direction}&address={address:#x}"))["n"].as_u64()
        };
        let later = all.iter().skip(number).position(|other| other == address).map(|at| (number + at + 1) as u64);
        let earlier = all[..number - 1].iter().rposition(|other| other == address).map(|at| at as u64 + 1);
        assert_eq!((find(number, "next"), find(number, "previous")), (later, earlier), "#{number}");
    }
}

/// Bytes of a source.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl<'b> Sink<&'b [u8]> for Bytes {
    fn item(&mut self, bytes: &'b [u8]) {
        self.0.extend(bytes);
    }
}

impl Watch for Bytes {}

#[test]
fn packets_have_the_bytes_of_the_source() {
    for name in ["hello-qemu", "hello-ete"] {
        let trace = example(name);
        let served = Served::new(std::slice::from_ref(&trace));
        let answer = served.answer("packets?t=0&s=0&at=5");
        assert!(answer["why"].is_null(), "{answer}");
        let packets = answer["packets"].as_array().unwrap();
        assert_eq!(packets.iter().filter(|packet| packet["here"] == true).count(), 1);
        let shown: Vec<&str> = packets.iter().map(|packet| packet["bytes"].as_str().unwrap()).collect();
        let opened = unspool::open(&trace).unwrap();
        let (capture, mut bytes) = (opened.capture().unwrap(), Bytes::default());
        let source = opened.sources()[0].to_string();
        let all = unspool::Trace::all(capture);
        all.iter().find(|trace| trace.source().name == source).unwrap().bytes(&mut bytes).unwrap();
        let whole: Vec<String> = bytes.0.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(whole.join(" ").contains(&shown.join(" ")), "{name}: {shown:?} of {whole:?}");
        assert!(shown.iter().all(|bytes| !bytes.is_empty()));
    }
}

#[test]
fn two_traces_are_compared() {
    let trace = example("example.astf");
    let served = Served::new(&[trace.clone(), trace]);
    let start = Instant::now();
    while served.answer("differences")["state"] == "running" && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let found = served.answer("differences");
    assert_eq!((found["equal"].as_bool(), found["state"].as_str()), (Some(true), Some("done")), "{found}");
}

#[test]
fn nothing_but_the_page_is_answered() {
    let served = Served::new(&[example("hello-qemu")]);
    served.finish();
    let (host, base) = (&served.host, &served.path);
    assert_eq!(served.get("").0, 200);
    let get = |path: &str, headers: &str| {
        served.send(format!("GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n").as_bytes()).0
    };
    let own = format!("Host: {host}\r\n");
    for (path, headers) in [
        ("/".to_string(), own.clone()),
        ("/0123456789abcdef0123456789abcdef/".to_string(), own.clone()),
        (base.clone(), "Host: evil.example\r\n".to_string()),
        (base.clone(), String::new()),
        (format!("{base}api/traces"), format!("{own}Origin: http://evil.example\r\n")),
        (format!("{base}api/traces"), format!("{own}Sec-Fetch-Site: cross-site\r\n")),
    ] {
        assert_eq!(get(&path, &headers), 403, "{path} {headers}");
    }
    for path in ["../", "..%2f..%2fetc/passwd", "page.js/", "assets/page.js", "//", "Cargo.toml", "api/", "api/nothing"]
    {
        assert_eq!(get(&format!("{base}{path}"), &own), 404, "{path}");
    }
    assert_eq!(
        served
            .send(
                format!("POST {base} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    .as_bytes()
            )
            .0,
        405
    );
    for query in [
        "instructions?t=0&s=0",
        "instructions?t=0&s=0&from=0&count=1",
        "instructions?t=0&s=0&from=1&count=1001",
        "instructions?t=0&s=0&from=1&count=1&count=1",
        "instructions?t=0&s=0&from=1&count=1&x=1",
        "find?t=0&s=0&from=1",
        "find?t=0&s=0&from=1&direction=up&gap=1",
        "find?t=0&s=0&from=1&gap=2",
        "find?t=0&s=0&from=1&gap=1&context=1",
        "locate?t=0&s=0&place=%23x",
        "step?t=0&s=0&at=1&move=sideways",
        "tree?t=0&s=0&path=main",
        "traces?t=0",
    ] {
        assert_eq!(served.get(&format!("api/{query}")).0, 400, "{query}");
    }
    assert_eq!(served.get("api/progress?t=1&s=0").0, 404);
    assert_eq!(served.get("api/source?t=0&s=0&file=0").0, 404);
}

/// Malformed requests of every sort are refused or cut off, and the server answers the page afterwards.
#[test]
fn malformed_requests_are_refused() {
    let served = Served::new(&[example("hello-qemu")]);
    served.finish();
    let names =
        ["instructions", "find", "calls", "marks", "state", "step", "stack", "locate", "tree", "packets", "times"];
    let keys =
        ["t", "s", "from", "to", "count", "at", "min", "depth", "depths", "buckets", "place", "memory", "address"];
    let values = [
        "0",
        "1",
        "-1",
        "18446744073709551615",
        "9007199254740991",
        "%00",
        "0x",
        "NaN",
        "x".repeat(300).leak(),
        "#1",
        "%23",
    ];
    let mut random = Random::new(7);
    for _ in 0..2_000 {
        let mut query = String::new();
        for _ in 0..random.below(9) {
            query += &format!("{}={}&", random.pick(&keys), random.pick(&values));
        }
        let (status, body) = served.get(&format!("api/{}?{query}", random.pick(&names)));
        assert!(matches!(status, 200 | 400 | 404), "{status} {query} {body}");
    }
    let valid = format!("GET {}api/traces HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", served.path, served.host);
    for _ in 0..500 {
        let mut bytes = valid.clone().into_bytes();
        for _ in 0..=random.below(4) {
            if bytes.is_empty() {
                break;
            }
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(3) {
                0 => bytes[at] = random.below(256) as u8,
                1 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        served.send(&bytes);
    }
    assert_eq!(served.answer("traces")["version"], 1);
}
