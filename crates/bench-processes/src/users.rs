//! Users that ask the scheduler while it schedules: browsers that show the page, and a user that explains pods.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use axum::{
    body::Body,
    http::{Request, StatusCode, header},
};
use berth_bench::AnswerTimes;
use clap::ValueEnum;
use futures::StreamExt as _;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::{net::UnixStream, task::JoinSet, time::sleep};

/// The time between two explanations, and between two attempts to reach a scheduler that starts.
const PAUSE: Duration = Duration::from_millis(100);

const HTML: &str = "text/html";
const EVENTS: &str = "text/event-stream";

/// A view of the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum View {
    /// The first view
    #[default]
    Now,
    /// Pending pods
    Pods,
    /// The map of the nodes
    Nodes,
}

/// The number of users of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Users {
    /// Browsers that show the scheduler's page.
    pub browsers: u16,
    /// The view that the browsers show.
    pub view: View,
    /// Whether a user explains the pods, one after the other.
    pub explains: bool,
}

/// Users that ask until this value is dropped.
pub(crate) struct AskingUsers {
    answers: Arc<Mutex<AnswerTimes>>,
    tasks: JoinSet<()>,
}

impl Users {
    /// Lets the users ask the scheduler on this socket. `pods` are the pods of the namespace `default` to explain.
    pub(crate) fn ask(self, socket: &Path, pods: Vec<String>) -> AskingUsers {
        let answers = Arc::<Mutex<AnswerTimes>>::default();
        let mut tasks = JoinSet::new();
        for _ in 0..self.browsers {
            tasks.spawn(browse(socket.to_owned(), self.view.path(), Arc::clone(&answers)));
        }
        if self.explains {
            tasks.spawn(explain(socket.to_owned(), pods, Arc::clone(&answers)));
        }
        AskingUsers { answers, tasks }
    }

    /// The words in the runner's name; empty without users.
    pub(crate) fn words(self) -> String {
        let view = match self.view {
            View::Now => "",
            View::Pods => " of pending pods",
            View::Nodes => " of nodes",
        };
        let browsers = if self.browsers > 0 { format!(", {} browsers{view}", self.browsers) } else { String::new() };
        let explains = if self.explains { ", explanations" } else { "" };
        format!("{browsers}{explains}")
    }
}

impl View {
    fn path(self) -> &'static str {
        match self {
            Self::Now => "/page",
            Self::Pods => "/page/pods",
            Self::Nodes => "/page/nodes",
        }
    }
}

impl AskingUsers {
    /// Ends the questions, and returns the times of the answers so far.
    pub(crate) fn answers(mut self) -> AnswerTimes {
        self.tasks.abort_all();
        std::mem::take(&mut *self.answers.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Shows a view of the page, and follows the view's updates.
async fn browse(socket: PathBuf, view: &'static str, answers: Arc<Mutex<AnswerTimes>>) {
    let time = loop {
        let asked = Instant::now();
        match get(&socket, view, HTML).await {
            Ok(()) => break asked.elapsed(),
            Err(_) => sleep(PAUSE).await,
        }
    };
    answers.lock().unwrap_or_else(PoisonError::into_inner).first_views.push(time);
    loop {
        // The scheduler ends each stream after a while. A browser then asks again.
        if get(&socket, view, EVENTS).await.is_err() {
            sleep(PAUSE).await;
        }
    }
}

/// Explains one pod after the other.
async fn explain(socket: PathBuf, pods: Vec<String>, answers: Arc<Mutex<AnswerTimes>>) {
    for pod in pods.iter().cycle() {
        let asked = Instant::now();
        if get(&socket, &format!("/explain?namespace=default&name={pod}"), "application/json").await.is_ok() {
            answers.lock().unwrap_or_else(PoisonError::into_inner).explanations.push(asked.elapsed());
        }
        sleep(PAUSE).await;
    }
}

/// Reads a whole answer.
async fn get(socket: &Path, path: &str, accept: &str) -> Result<()> {
    let stream = UnixStream::connect(socket).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = Request::get(path).header(header::HOST, "localhost").header(header::ACCEPT, accept);
    let response = sender.send_request(request.body(Body::empty())?).await?;
    ensure!(response.status() == StatusCode::OK, "{path}: {}", response.status());
    let mut body = Body::new(response.into_body()).into_data_stream();
    while let Some(part) = body.next().await {
        part.context("the answer was cut off")?;
    }
    connection.abort();
    Ok(())
}
