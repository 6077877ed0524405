//! The server: files of the page, and answers as JSON.

use std::collections::VecDeque;
use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle, available_parallelism};

use serde_json::json;
use tiny_http::{Header, Method, Response, Server};
use unspool::capture::Code;

use crate::Refusal;
use crate::answer::Shown;
use crate::differences::Differences;
use crate::job::{Job, NoResult, Work, start};
use crate::request::{Request, Wanted};
use crate::source::Trace;

/// Threads that answer requests. Most wait for the same source.
const THREADS: usize = 4;

/// Files of the page: path, type, contents.
const FILES: [(&str, &str, &[u8]); 3] = [
    ("", "text/html; charset=utf-8", include_bytes!("../assets/index.html")),
    ("page.js", "text/javascript; charset=utf-8", include_bytes!("../assets/page.js")),
    ("page.css", "text/css; charset=utf-8", include_bytes!("../assets/page.css")),
];

/// What the page may load, and from where: only from here.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Reason why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A trace cannot be opened.
    #[error(transparent)]
    Trace(#[from] unspool::Error),
    /// A trace has nothing to show.
    #[error("{}: no source with instructions; 'unspool info' shows what it has", .0.display())]
    Empty(PathBuf),
    /// There is no random number for the token.
    #[error("cannot make a token: {0}")]
    Token(#[from] getrandom::Error),
    /// The port cannot be used.
    #[error("cannot listen on 127.0.0.1:{port}: {reason}")]
    Port {
        /// The port.
        port: u16,
        /// Why.
        reason: String,
    },
}

/// A running server.
pub struct Viewer {
    address: String,
    threads: Vec<JoinHandle<()>>,
}

impl Viewer {
    /// Opens traces and serves them. `codes` are added to their programs. Port 0: any that is free.
    ///
    /// # Errors
    ///
    /// If a trace cannot be opened, or the port cannot be used.
    pub fn start(paths: &[PathBuf], codes: &[Code], port: u16) -> Result<Self, StartError> {
        let mut traces = Vec::new();
        for path in paths {
            let trace = Trace::open(path, codes)?;
            if trace.sources.is_empty() {
                return Err(StartError::Empty(path.clone()));
            }
            traces.push(Arc::new(trace));
        }
        let mut secret = [0; 16];
        getrandom::fill(&mut secret)?;
        let token: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let failed = |reason: &dyn std::fmt::Display| StartError::Port { port, reason: reason.to_string() };
        let server = Server::http(("127.0.0.1", port)).map_err(|error| failed(&error))?;
        let port = server.server_addr().to_ip().map_or(port, |address| address.port());
        let address = format!("http://127.0.0.1:{port}/{token}/");
        let shown = Arc::new(Shown { traces, differences: Job::default() });
        start(work(&shown), available_parallelism().map_or(1, usize::from));
        let (server, token) = (Arc::new(server), Arc::<str>::from(token));
        let mut threads = Vec::new();
        for _ in 0..THREADS {
            let (server, shown, token) = (Arc::clone(&server), Arc::clone(&shown), Arc::clone(&token));
            let serve = move || {
                while let Ok(request) = server.recv() {
                    let response = respond(&request, &shown, port, &token);
                    // A page that has gone does not want its answer.
                    let _ = request.respond(response);
                }
            };
            let thread = thread::Builder::new().name("view".to_string()).spawn(serve);
            threads.push(thread.map_err(|error| failed(&error))?);
        }
        Ok(Self { address, threads })
    }

    /// The address of the page, which has the token.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Serves until the program is ended.
    pub fn wait(self) {
        for thread in self.threads {
            // A panic was printed.
            let _ = thread.join();
        }
    }
}

/// What is done in the background.
fn work(shown: &Arc<Shown>) -> VecDeque<Work> {
    let mut all: VecDeque<Work> = shown.traces.iter().flat_map(Trace::work).collect();
    let shown = Arc::clone(shown);
    all.push_back(Box::new(move || {
        let found = match &shown.traces[..] {
            [a, b] => Differences::of([a, b]).map_err(NoResult::Failed),
            _ => Err(NoResult::Absent("differences are of two traces".to_string())),
        };
        shown.differences.end(found);
    }));
    all
}

type Answer = Response<Cursor<Vec<u8>>>;

fn respond(request: &tiny_http::Request, shown: &Shown, port: u16, token: &str) -> Answer {
    let header = |name: &'static str| {
        let mut found = request.headers().iter().filter(move |header| header.field.equiv(name));
        found.next().map(|header| header.value.as_str())
    };
    let examined = Request {
        is_get: *request.method() == Method::Get,
        url: request.url(),
        host: header("Host"),
        origin: header("Origin"),
        site: header("Sec-Fetch-Site"),
    };
    let refused =
        |status: u16, text: &str| (status, "application/json", json!({"error": text}).to_string().into_bytes());
    let (status, kind, body) = match examined.examine(port, token) {
        Wanted::Refused(status) => {
            refused(status, "this address belongs to the page of 'unspool view', and needs its token")
        }
        Wanted::File(path) => match FILES.iter().find(|(known, ..)| *known == path) {
            Some((_, kind, contents)) => (200, *kind, contents.to_vec()),
            None => refused(404, "there is no such file"),
        },
        Wanted::Answer { name, query } => match shown.answer(name, query) {
            Ok(answer) => (200, "application/json", answer.to_string().into_bytes()),
            Err(Refusal { status, text }) => refused(status, &text),
        },
    };
    let headers = [
        ("Content-Type", kind),
        ("Content-Security-Policy", POLICY),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cache-Control", "no-store"),
    ];
    let mut response = Response::from_data(body).with_status_code(status);
    for (name, value) in headers {
        if let Ok(header) = Header::from_bytes(name, value) {
            response.add_header(header);
        }
    }
    response
}
