//! `berth top`: a running scheduler in a terminal. `screen` draws the scheduler's state; this module asks the scheduler
//! and handles the keys.

mod screen;

use std::{
    io::{self, IsTerminal as _, Write as _},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use berth_config::Usage;
use berth_plugin_cli::{AdminClient, Output, Server, block_on};
use clap::Args;
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

use self::screen::{Explained, Screen};
use crate::options::duration;

const EXAMPLES: &str = "\
Keys:
  Up, Down, PageUp, PageDown   choose a pod, or move through its explanation
  Enter                        explain the pod
  Tab                          all pods, or the pods of one reason after the other
  Esc                          back
  q                            quit

Examples:
  berth top                                     the scheduler of this machine, over its admin socket
  berth top --server 10.0.0.5:10259 --certificate-authority ca.crt
  berth top -o json                             once, for programs";

/// The scheduler to show, and the form of the output.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Top {
    /// Interval between two updates
    #[arg(long, default_value = "1s", value_parser = duration, value_name = "DURATION")]
    interval: Duration,
    /// `json` writes a single snapshot, for programs
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    server: Server,
}

pub(crate) fn run(top: &Top) -> Result<()> {
    if top.output == Output::Json {
        let overview = block_on(async { top.server.client().await?.overview().await })?;
        let mut out = io::stdout().lock();
        serde_json::to_writer_pretty(&mut out, &overview)?;
        return Ok(writeln!(out)?);
    }
    if !io::stdout().is_terminal() {
        return Err(Usage("berth top needs a terminal; use `-o json` for a single snapshot".to_owned()).into());
    }
    if top.interval.is_zero() {
        return Err(Usage("--interval 0s: must be greater than zero".to_owned()).into());
    }
    block_on(async {
        // Errors of connection and of permission are printed as lines, before the screen opens.
        let client = top.server.client().await?;
        let first = client.overview().await?;
        let screen = Screen::new(first);
        // A panic also restores the terminal.
        let mut terminal = ratatui::try_init().context("cannot open the terminal")?;
        let shown = show(&mut terminal, screen, &client, top.interval).await;
        ratatui::restore();
        shown
    })
}

async fn show(terminal: &mut DefaultTerminal, mut screen: Screen, client: &AdminClient, every: Duration) -> Result<()> {
    let mut keys = keys();
    let mut every = interval(every);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        terminal.draw(|frame| screen.draw(frame)).context("cannot draw on the terminal")?;
        tokio::select! {
            _ = every.tick() => match client.overview().await {
                Ok(overview) => screen.took(overview, Instant::now()),
                Err(error) => screen.lost(&error),
            },
            event = keys.recv() => match event {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    if !press(&mut screen, key, client).await {
                        return Ok(());
                    }
                }
                // The terminal's size changed, and the next turn of the loop draws the screen again.
                Some(_) => {}
                None => return Ok(()),
            },
        }
    }
}

/// Carries out the command of a key. Returns whether to continue.
async fn press(screen: &mut Screen, key: KeyEvent, client: &AdminClient) -> bool {
    match key.code {
        KeyCode::Char('q') => return false,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Up | KeyCode::Char('k') => screen.step(-1),
        KeyCode::Down | KeyCode::Char('j') => screen.step(1),
        KeyCode::PageUp => screen.step(-10),
        KeyCode::PageDown => screen.step(10),
        KeyCode::Tab => screen.next_reason(),
        KeyCode::Esc | KeyCode::Backspace => screen.back(),
        KeyCode::Enter => {
            if let Some((namespace, name)) = screen.chosen() {
                let explained = client.explain(&namespace, &name, None).await;
                let text = explained.map_or_else(|error| format!("{error:#}"), |explained| explained.text());
                screen.explain(Explained::new(&namespace, &name, &text));
            }
        }
        _ => {}
    }
    true
}

/// The events of the keyboard. Reading a terminal cannot be cancelled, so the thread ends with the process.
fn keys() -> mpsc::Receiver<Event> {
    let (typed, keys) = mpsc::channel(16);
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            if typed.blocking_send(event).is_err() {
                return;
            }
        }
    });
    keys
}
