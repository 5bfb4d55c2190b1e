//! The page of a story, opened from disk in a browser without a screen: it is
//! drawn, with a lane for everybody, and asks for nothing over the network.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use leasehold_lab::story::{Stage, Story};

const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
const WIDTH: u32 = 1_200;
const HEIGHT: u32 = 1_600;
/// How long the browser may take, on a machine that does other things too.
const LONGEST: Duration = Duration::from_secs(120);

#[testbed::test]
fn a_page_from_disk_is_drawn_with_a_lane_for_everybody() {
    let story = Story::find("partition").expect("there is such a story");
    testbed::need(story.lacks());
    let browser = browser();
    testbed::need(browser.is_none().then_some("chromium"));
    let browser = browser.expect("it is there");
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage {
        folder: folder.path(),
        url: None,
        progress: &|_| {},
    };
    let report = story.tell(&stage).unwrap();
    let page = report.write(story, &folder.path().join("pages")).unwrap();
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(
        !text.contains("src=") && !text.contains("href="),
        "{page:?}"
    );
    let url = format!("file://{}", page.display());

    let dom = look(&browser, folder.path(), &["--dump-dom", &url]);
    let count = |what: &str| dom.matches(what).count();
    assert_eq!(count("<svg"), report.runs.len(), "a picture of each run");
    // The script takes the titles of the shapes, to show them beside the mouse.
    assert_eq!(count("<title"), 1, "only the page has one");
    // Two workers and what they work on.
    assert!(count("class=\"lane\"") >= 3 * report.runs.len(), "{dom}");
    for name in ["w1", "w2", "ledger"] {
        assert!(
            count(&format!(">{name}</text>")) >= report.runs.len(),
            "{name}"
        );
    }

    // Whoever points at a hold is told of it, and of no more when he points away.
    for (events, told) in [
        ("mousemove", "display: block"),
        ("mousemove mouseleave", "display: none"),
    ] {
        let pointed = folder.path().join("pages/pointed.html");
        let point = format!(
            "<script>const hold=document.querySelector('rect.hold');\
             for(const name of '{events}'.split(' '))hold.dispatchEvent(new MouseEvent(name))</script>"
        );
        std::fs::write(&pointed, format!("{text}{point}")).unwrap();
        let url = format!("file://{}", pointed.display());
        let dom = look(&browser, folder.path(), &["--dump-dom", &url]);
        let (_, rest) = dom
            .split_once("id=\"told\"")
            .expect("there is a place for it");
        let (attributes, rest) = rest.split_once('>').expect("it is an element");
        assert!(attributes.contains(told), "{events}: {attributes}");
        assert!(rest.starts_with("w1 held "), "{rest}");
    }

    let drawn = picture(&browser, folder.path(), "page", &url);
    let blank = picture(&browser, folder.path(), "blank", "about:blank");
    assert_eq!(size(&drawn), (WIDTH, HEIGHT));
    // An empty picture of that size is all but nothing when it is packed.
    assert!(
        drawn.len() > 5 * blank.len(),
        "{} {}",
        drawn.len(),
        blank.len()
    );
}

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    let files = PROGRAMS
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    files.into_iter().find(|file| file.is_file())
}

/// The bytes of a screenshot.
fn picture(browser: &Path, folder: &Path, name: &str, url: &str) -> Vec<u8> {
    let file = folder.join(format!("{name}.png"));
    let screenshot = format!("--screenshot={}", file.display());
    let window = format!("--window-size={WIDTH},{HEIGHT}");
    look(browser, folder, &[&screenshot, &window, url]);
    std::fs::read(&file).expect("the browser wrote a picture")
}

/// Runs the browser to its end, and gives what it printed.
fn look(browser: &Path, folder: &Path, arguments: &[&str]) -> String {
    let output = folder.join("output");
    let mut child = Command::new(browser)
        // Root has no sandbox, and a small machine no room for shared memory.
        .args(["--headless", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-dev-shm-usage", "--hide-scrollbars"])
        .arg(format!(
            "--user-data-dir={}",
            folder.join("profile").display()
        ))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&output).expect("the folder can be written"))
        .stderr(Stdio::null())
        .spawn()
        .expect("the browser starts");
    let deadline = Instant::now() + LONGEST;
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is a child of ours") {
            break status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{arguments:?}: not within {LONGEST:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success(), "{arguments:?}: {status}");
    std::fs::read_to_string(output).expect("it is there, and text")
}

/// Width and height, which stand in the first block of a PNG file.
fn size(png: &[u8]) -> (u32, u32) {
    assert_eq!(&png[1..4], b"PNG");
    let number = |from: usize| {
        let bytes = png[from..from + 4].iter();
        bytes.fold(0, |number, &byte| number << 8 | u32::from(byte))
    };
    (number(16), number(20))
}
