//! A file that is rotated when it is full: `FILE` becomes `FILE.1`, `FILE.1` becomes `FILE.2`, and the oldest file is
//! deleted.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Appends to a file. The file and its `n_backups` backups take `max_bytes` each.
#[derive(Debug)]
pub(super) struct RotatingFile {
    path: PathBuf,
    file: fs::File,
    size: u64,
    max_bytes: u64,
    n_backups: u32,
}

impl RotatingFile {
    /// Opens a file, and continues it if it exists.
    ///
    /// # Errors
    /// The file cannot be opened for appending.
    pub(super) fn open(path: PathBuf, max_bytes: u64, n_backups: u32) -> io::Result<Self> {
        let file = append(&path)?;
        let size = file.metadata()?.len();
        Ok(Self { path, file, size, max_bytes, n_backups })
    }

    fn backup(&self, number: u32) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        name.into()
    }

    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..self.n_backups).rev() {
            match fs::rename(self.backup(number), self.backup(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        fs::rename(&self.path, self.backup(1))?;
        self.file = append(&self.path)?;
        self.size = 0;
        Ok(())
    }
}

impl Write for RotatingFile {
    /// Writes a whole line. A line is never split between two files.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.size > 0 && self.size + line.len() as u64 > self.max_bytes {
            self.rotate()?;
        }
        self.file.write_all(line)?;
        self.size += line.len() as u64;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn append(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().append(true).create(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_makes_room() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("audit.log");
        let mut file = RotatingFile::open(path.clone(), 20, 2).expect("a file");
        for line in 0..7 {
            file.write_all(format!("line {line}\n").as_bytes()).expect("room");
            if line == 4 {
                file = RotatingFile::open(path.clone(), 20, 2).expect("it goes on");
            }
        }
        let text = |name: &str| fs::read_to_string(dir.path().join(name)).expect("a file");
        assert_eq!(text("audit.log"), "line 6\n");
        assert_eq!((text("audit.log.1"), text("audit.log.2")), ("line 4\nline 5\n".into(), "line 2\nline 3\n".into()));
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 3);
    }
}
