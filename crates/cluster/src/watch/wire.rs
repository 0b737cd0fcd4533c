//! The format of a watch: an endless response with one JSON object per line.

use std::{collections::BTreeMap, pin::Pin, time::Duration};

use futures::{AsyncBufRead, AsyncBufReadExt};
use kube::core::Status;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The annotation of the bookmark that ends a streamed list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The content of one line. Objects stay text, so that an object that cannot be decoded affects no other object.
#[derive(Debug)]
pub(super) enum Frame<'a> {
    Applied(&'a str),
    Deleted(&'a str),
    Bookmark { resource_version: String, ends_list: bool },
    Error(Box<Status>),
}

/// The reason why there is no further line.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("the server sent nothing for {} s", .0.as_secs())]
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

    /// The next frame; `None` if the server ended the watch, as it does every few minutes.
    pub(super) async fn next(&mut self, idle_timeout: Duration) -> Result<Option<Frame<'_>>, ReadError> {
        self.line.clear();
        let read = self.body.read_until(b'\n', &mut self.line);
        let n_bytes = tokio::time::timeout(idle_timeout, read).await.map_err(|_| ReadError::Idle(idle_timeout))??;
        // The server could not finish an incomplete line, so the watch is over.
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
            r#type: &'a str,
            #[serde(borrow)]
            object: &'a RawValue,
        }
        let (r#type, object) = match cut(line) {
            Some(parts) => parts,
            None => {
                let line: Line<'a> = serde_json::from_slice(line)?;
                (line.r#type, line.object.get())
            }
        };
        match r#type {
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

/// Type and object of a line in the exact format of API servers. The object is not parsed, because its decoder reads it
/// anyway: with its `managedFields`, finding its end may take longer than decoding it.
fn cut(line: &[u8]) -> Option<(&str, &str)> {
    let rest = std::str::from_utf8(line).ok()?.strip_prefix("{\"type\":\"")?;
    let (r#type, rest) = rest.split_once('"')?;
    let object = rest.strip_prefix(",\"object\":")?.strip_suffix("}\n")?;
    (object.starts_with('{') && object.ends_with('}')).then_some((r#type, object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_up_however_it_is_written() {
        let object = r#"{"metadata":{"name":"a","annotations":{"x":"}\n\"object\":{"}}}"#;
        for line in [
            format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n"),
            format!("{{\"type\":\"ADDED\",\"object\":{object}}}"),
            format!("{{\"object\":{object},\"type\":\"ADDED\"}}\n"),
            format!(" {{ \"type\" : \"ADDED\" , \"object\" : {object} }}\r\n"),
        ] {
            let Ok(Frame::Applied(found)) = Frame::parse(line.as_bytes()) else { panic!("{line}") };
            assert_eq!(found, object);
        }
        for line in [
            "{\"type\":\"ADDED\"}\n",
            "{\"type\":\"ADDED\",\"object\":{}\n",
            "\n",
            "{\"type\":\"MOVED\",\"object\":{}}\n",
        ] {
            assert!(Frame::parse(line.as_bytes()).is_err(), "{line}");
        }
    }
}
