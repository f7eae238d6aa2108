//! A state file: locked, read and written as a whole, so that it is readable at any moment.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::record::Record;

/// Where a state file is, and its lock: a file of its own beside it, for the state file is replaced at each change, and a
/// lock on what has been replaced keeps nobody out. It is never removed.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    lock: PathBuf,
    new: PathBuf,
}

/// A state file that nobody else changes meanwhile.
#[derive(Debug)]
pub(super) struct Session {
    _lock: File,
    pub(super) record: Record,
    /// What the file has.
    text: Vec<u8>,
}

/// Why a state file cannot be had.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It cannot be gone on from, whoever tries: somebody has to look at it.
    Refused(String),
    /// It may be had at another time: the disk is full, or somebody holds the lock and does nothing.
    Passing(String),
}

/// How long the lock is waited for. It is held for as long as it takes to write a few kilobytes: who holds it for longer has
/// been stopped.
const PATIENCE: Duration = Duration::from_secs(2);

/// The largest file that is read.
const MAX_TEXT: u64 = 1 << 22;

impl Store {
    /// The file at `path`, which need not be there.
    pub(super) fn at(path: &Path) -> Self {
        // Where it is a link, what it leads to is replaced, and not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let beside = |ending: &str| {
            let mut name = std::ffi::OsString::from(".");
            name.push(path.file_name().unwrap_or_default());
            name.push(ending);
            path.with_file_name(name)
        };
        Self { lock: beside(".lock"), new: beside(".new"), path }
    }

    /// Locks and reads it.
    pub(super) fn open(&self) -> Result<Session, Trouble> {
        // To open a pipe would wait for its other end, and a link may lead to what is another's.
        if fs::symlink_metadata(&self.lock).is_ok_and(|found| !found.is_file()) {
            let lock = self.lock.display();
            return Err(Trouble::Refused(format!("{}: its lock ({lock}) is no file", self.path.display())));
        }
        let lock = File::options().create(true).truncate(false).write(true).open(&self.lock);
        let lock = lock.map_err(|error| self.failed("its lock cannot be opened", &self.lock, &error))?;
        self.wait_for(&lock)?;
        let text = self.read()?;
        let record = Record::parse(&text)
            .map_err(|why| Trouble::Refused(format!("{}: {why}", self.path.display())))?;
        Ok(Session { _lock: lock, record, text })
    }

    /// Writes what has changed, beside it first: whoever is killed meanwhile leaves the old file or the new one.
    /// What could not be read again is not written: the parts that have not changed for the longest are forgotten first.
    pub(super) fn close(&self, session: Session) -> Result<(), Trouble> {
        let Session { mut record, .. } = session;
        let mut text = record.to_text();
        while text.len() as u64 > MAX_TEXT && record.forget_the_older_half() {
            text = record.to_text();
        }
        if text == session.text {
            return Ok(());
        }
        let written = self.write(&text);
        written.map_err(|error| self.failed("it cannot be written", &self.path, &error))
    }

    fn write(&self, text: &[u8]) -> io::Result<()> {
        // What was left there goes, whatever it is: written to, a link would overwrite what it leads to, and a pipe would wait.
        match fs::remove_file(&self.new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut new = File::create_new(&self.new)?;
        new.write_all(text)?;
        new.sync_all()?;
        fs::rename(&self.new, &self.path)?;
        // That it has its name is known to the disk only then.
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    }

    fn read(&self) -> Result<Vec<u8>, Trouble> {
        let refuse = |why: &str| Err(Trouble::Refused(format!("{}: {why}", self.path.display())));
        match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed("it cannot be read", &self.path, &error)),
            Ok(found) if !found.is_file() => return refuse("it is no file"),
            Ok(found) if found.len() > MAX_TEXT => return refuse("it is too large for a state file"),
            Ok(found) if found.len() == 0 => return refuse("it is empty, which no state file is"),
            Ok(_) => {}
        }
        let mut text = Vec::new();
        let read = File::open(&self.path).and_then(|file| file.take(MAX_TEXT).read_to_end(&mut text));
        read.map_err(|error| self.failed("it cannot be read", &self.path, &error))?;
        Ok(text)
    }

    fn wait_for(&self, lock: &File) -> Result<(), Trouble> {
        let end = Instant::now() + PATIENCE;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(()),
                Err(TryLockError::WouldBlock) if Instant::now() < end => {
                    thread::sleep(Duration::from_millis(2));
                }
                Err(TryLockError::WouldBlock) => {
                    let what =
                        format!("{}: another process holds its lock and does nothing", self.path.display());
                    return Err(Trouble::Passing(what));
                }
                Err(TryLockError::Error(error)) => {
                    return Err(self.failed("it cannot be locked", &self.lock, &error));
                }
            }
        }
    }

    /// What is missing or forbidden stays so; all else may pass.
    fn failed(&self, what: &str, path: &Path, error: &io::Error) -> Trouble {
        use io::ErrorKind::{IsADirectory, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
        let beside = if path == self.path { String::new() } else { format!(" ({})", path.display()) };
        let text = format!("{}: {what}{beside}: {error}", self.path.display());
        match error.kind() {
            IsADirectory | NotADirectory | NotFound | PermissionDenied | ReadOnlyFilesystem => {
                Trouble::Refused(text)
            }
            _ => Trouble::Passing(text),
        }
    }
}
