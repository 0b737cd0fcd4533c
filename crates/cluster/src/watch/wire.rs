//! A watch on the wire: a response that never ends, one JSON object a line.

use std::{collections::BTreeMap, pin::Pin, time::Duration};

use futures::{AsyncBufRead, AsyncBufReadExt};
use kube::core::Status;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Set on the bookmark that ends a streamed list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// What one line says. Objects stay text, so that one which can't be decoded costs only itself.
#[derive(Debug)]
pub(super) enum Frame<'a> {
    Applied(&'a str),
    Deleted(&'a str),
    Bookmark { resource_version: String, ends_list: bool },
    Error(Box<Status>),
}

/// Why there is no further line.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("the server said nothing for {} s", .0.as_secs())]
    Idle(Duration),
    #[error("the connection broke: {0}")]
    Io(#[from] std::io::Error),
    #[error("a line is not a watch event: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// An open watch.
pub(super) struct Lines {
    body: Pin<Box<dyn AsyncBufRead + Send>>,
    line: Vec<u8>,
}

impl Lines {
    pub(super) fn new(body: impl AsyncBufRead + Send + 'static) -> Self {
        Self { body: Box::pin(body), line: Vec::new() }
    }

    /// The next frame; `None` when the server ended the watch, as it does every few minutes.
    pub(super) async fn next(&mut self, idle_timeout: Duration) -> Result<Option<Frame<'_>>, ReadError> {
        self.line.clear();
        let read = self.body.read_until(b'\n', &mut self.line);
        let n_bytes = tokio::time::timeout(idle_timeout, read).await.map_err(|_| ReadError::Idle(idle_timeout))??;
        // A line cut short is one that the server could not finish: the watch is over.
        if n_bytes == 0 || self.line.last() != Some(&b'\n') && serde_json::from_slice::<&RawValue>(&self.line).is_err()
        {
            return Ok(None);
        }
        Ok(Some(Frame::parse(&self.line)?))
    }
}

impl<'a> Frame<'a> {
    fn parse(line: &'a [u8]) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Line<'a> {
            r#type: String,
            #[serde(borrow)]
            object: &'a RawValue,
        }
        let line: Line<'a> = serde_json::from_slice(line)?;
        let object = line.object.get();
        match line.r#type.as_str() {
            "ADDED" | "MODIFIED" => Ok(Self::Applied(object)),
            "DELETED" => Ok(Self::Deleted(object)),
            "BOOKMARK" => Self::bookmark(object),
            "ERROR" => serde_json::from_str(object).map(Self::Error),
            other => Err(serde::de::Error::custom(format_args!("unknown type {other:?}"))),
        }
    }

    fn bookmark(object: &str) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Bookmark {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            resource_version: String,
            #[serde(default)]
            annotations: BTreeMap<String, String>,
        }
        let Bookmark { metadata } = serde_json::from_str(object)?;
        let ends_list = metadata.annotations.get(INITIAL_EVENTS_END).is_some_and(|value| value == "true");
        Ok(Self::Bookmark { resource_version: metadata.resource_version, ends_list })
    }
}
