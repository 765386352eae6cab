//! File systems of our own to end: made in a file, mounted over a loop device, and taken away again
//! however the campaign goes. Needs root, and the usual commands.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{thread, time::Duration};

use clap::ValueEnum;
use siltstone_interop::scratch::Scratch;

use crate::shutdown::{Flush, shut_down};

/// A kind of file system that can be shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Ext4,
    Xfs,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Ext4 => "ext4",
            Kind::Xfs => "xfs",
        }
    }

    /// XFS has a least size.
    fn image_bytes(self) -> u64 {
        match self {
            Kind::Ext4 => 128 << 20,
            Kind::Xfs => 400 << 20,
        }
    }

    fn make_command(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Kind::Ext4 => ("mkfs.ext4", &["-q", "-F"]),
            Kind::Xfs => ("mkfs.xfs", &["-q", "-f"]),
        }
    }
}

/// A mounted file system. Unmounted, and its device given back, on drop.
pub(crate) struct Disk {
    mount: PathBuf,
    mounted: bool,
    /// None for a file system in memory.
    device: Option<String>,
    /// Holds the image and the mount's folder; goes last.
    scratch: Scratch,
}

impl Disk {
    /// A fresh file system in a sparse file below `place`.
    ///
    /// # Errors
    ///
    /// Why it cannot be had here, for people.
    pub(crate) fn make(kind: Kind, place: &Path) -> Result<Disk, String> {
        let mut disk = Disk::unmounted(place)?;
        let image = disk.scratch.join("image");
        let file = File::create(&image).map_err(|error| error.to_string())?;
        file.set_len(kind.image_bytes()).map_err(|error| error.to_string())?;
        let device = run(Command::new("losetup").args(["-f", "--show"]).arg(&image))?;
        disk.device = Some(device.trim().to_owned());
        let (program, options) = kind.make_command();
        run(Command::new(program).args(options).args(&disk.device))?;
        disk.mount()?;
        Ok(disk)
    }

    /// A file system in memory, for so many bytes.
    ///
    /// # Errors
    ///
    /// As [`make`](Self::make).
    pub(crate) fn in_memory(bytes: u64, place: &Path) -> Result<Disk, String> {
        let mut disk = Disk::unmounted(place)?;
        let size = format!("size={bytes}");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&disk.mount))?;
        disk.mounted = true;
        Ok(disk)
    }

    fn unmounted(place: &Path) -> Result<Disk, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root may mount".to_owned());
        }
        let scratch = Scratch::below(place, "disk");
        let mount = scratch.join("mount");
        fs::create_dir(&mount).map_err(|error| error.to_string())?;
        Ok(Disk { mount, mounted: false, device: None, scratch })
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        &self.mount
    }

    /// A place beside the mount, which no cut touches.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    /// The power goes. Whoever uses the file system gets errors from now on.
    pub(crate) fn cut(&self, flush: Flush) -> Result<(), String> {
        shut_down(&self.mount, flush).map_err(|error| format!("shutdown: {error}"))
    }

    /// The power comes back: the journal is replayed.
    pub(crate) fn start_again(&mut self) -> Result<(), String> {
        self.unmount()?;
        self.mount()
    }

    fn mount(&mut self) -> Result<(), String> {
        run(Command::new("mount").args(&self.device).arg(&self.mount))?;
        self.mounted = true;
        Ok(())
    }

    fn unmount(&mut self) -> Result<(), String> {
        let mut tries = 0;
        loop {
            match run(Command::new("umount").arg(&self.mount)) {
                Ok(_) => break,
                Err(error) if tries == 50 => return Err(error),
                // The kernel may take a moment to let go of a killed process's files.
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
            tries += 1;
        }
        self.mounted = false;
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted
            && let Err(error) = self.unmount()
        {
            eprintln!("still mounted: {}: {error}", self.mount.display());
            return;
        }
        if let Some(device) = &self.device
            && let Err(error) = run(Command::new("losetup").arg("-d").arg(device))
        {
            eprintln!("still there: {device}: {error}");
        }
    }
}

/// Runs a command to its end and returns what it printed; its failure, in its own words, if it
/// failed. In a process group of its own: an interruption from the terminal is for us alone, who
/// then tidy up.
fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    // What only root runs may lie where other users' paths do not lead.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin")).process_group(0);
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}
