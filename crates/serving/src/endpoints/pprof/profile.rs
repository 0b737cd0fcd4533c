//! The message `Profile` of pprof's `profile.proto`: the format of `go tool pprof`. The messages have only the fields that
//! a profile of this program fills.

use std::{collections::HashMap, time::UNIX_EPOCH};

use pprof::{Report, Symbol};
use prost::Message;

const NANOS_PER_SECOND: i64 = 1_000_000_000;

#[derive(Clone, PartialEq, Message)]
pub struct Profile {
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    /// The texts, which other messages name by their index. The first is empty.
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    pub time_nanos: i64,
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    pub period: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct ValueType {
    #[prost(int64, tag = "1")]
    pub r#type: i64,
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Sample {
    /// The stack. The innermost function is first.
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Label {
    #[prost(int64, tag = "1")]
    pub key: i64,
    #[prost(int64, tag = "2")]
    pub str: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Location {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Line {
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    #[prost(int64, tag = "2")]
    pub line: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Function {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(int64, tag = "2")]
    pub name: i64,
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    #[prost(int64, tag = "4")]
    pub filename: i64,
}

impl From<&Report> for Profile {
    /// Each sample has the number of times that the stack was seen, and the processor time for which it stands.
    fn from(report: &Report) -> Self {
        let mut tables = Tables::default();
        let timing = &report.timing;
        let period = NANOS_PER_SECOND / i64::from(timing.frequency);
        let samples_value = ValueType { r#type: tables.text("samples"), unit: tables.text("count") };
        let time_value = ValueType { r#type: tables.text("cpu"), unit: tables.text("nanoseconds") };
        let thread = tables.text("thread");
        let samples = report.data.iter().map(|(stack, count)| {
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            Sample {
                location_id: stack.frames.iter().flatten().map(|symbol| tables.location(symbol)).collect(),
                value: vec![count, count.saturating_mul(period)],
                label: vec![Label { key: thread, str: tables.text(&stack.thread_name_or_id()) }],
            }
        });
        let sample = samples.collect();
        let start = timing.start_time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            sample_type: vec![samples_value, time_value.clone()],
            sample,
            location: tables.locations,
            function: tables.functions,
            string_table: tables.texts,
            time_nanos: i64::try_from(start.as_nanos()).unwrap_or(i64::MAX),
            duration_nanos: i64::try_from(timing.duration.as_nanos()).unwrap_or(i64::MAX),
            period_type: Some(time_value),
            period,
        }
    }
}

/// The parts of a profile that samples name by number. Each part is in its table once.
struct Tables {
    texts: Vec<String>,
    text_indexes: HashMap<String, i64>,
    functions: Vec<Function>,
    /// The functions by the names of their symbols.
    function_ids: HashMap<Vec<u8>, u64>,
    locations: Vec<Location>,
    /// The locations by function and line.
    location_ids: HashMap<(u64, i64), u64>,
}

impl Default for Tables {
    /// The empty text is the first one, as the format requires.
    fn default() -> Self {
        Self {
            texts: vec![String::new()],
            text_indexes: HashMap::from([(String::new(), 0)]),
            functions: Vec::new(),
            function_ids: HashMap::new(),
            locations: Vec::new(),
            location_ids: HashMap::new(),
        }
    }
}

impl Tables {
    fn text(&mut self, text: &str) -> i64 {
        if let Some(index) = self.text_indexes.get(text) {
            return *index;
        }
        let index = i64::try_from(self.texts.len()).unwrap_or(i64::MAX);
        self.texts.push(text.to_owned());
        self.text_indexes.insert(text.to_owned(), index);
        index
    }

    fn function(&mut self, symbol: &Symbol) -> u64 {
        if let Some(id) = self.function_ids.get(symbol.raw_name()) {
            return *id;
        }
        let id = self.functions.len() as u64 + 1;
        let function = Function {
            id,
            name: self.text(&symbol.name()),
            system_name: self.text(&symbol.sys_name()),
            filename: self.text(&symbol.filename()),
        };
        self.functions.push(function);
        self.function_ids.insert(symbol.raw_name().to_owned(), id);
        id
    }

    fn location(&mut self, symbol: &Symbol) -> u64 {
        let (function_id, line) = (self.function(symbol), i64::from(symbol.lineno()));
        *self.location_ids.entry((function_id, line)).or_insert_with(|| {
            let id = self.locations.len() as u64 + 1;
            self.locations.push(Location { id, line: vec![Line { function_id, line }] });
            id
        })
    }
}
