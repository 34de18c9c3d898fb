use super::*;
use notify::event::{DataChange, Flag, ModifyKind};
use std::{fs, os::unix::fs::symlink};

/// A temporary folder of the test, without links in its path.
fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("fedgate-files-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path.canonicalize().unwrap()
}

fn written(path: PathBuf) -> Event {
    Event::new(EventKind::Modify(ModifyKind::Data(DataChange::Any))).add_path(path)
}

#[test]
fn only_what_may_lead_to_a_followed_file_wakes() {
    let above = folder("wakes");
    let (inner, elsewhere) = (above.join("inner"), above.join("elsewhere"));
    for made in [&inner, &elsewhere, &inner.join("..one")] {
        fs::create_dir(made).unwrap();
    }
    for file in [
        "above.log",
        "inner/one.yaml",
        "inner/one.key",
        "inner/..one/shop",
        "elsewhere/token",
        "elsewhere/log",
        "elsewhere/linked",
    ] {
        fs::write(above.join(file), "").unwrap();
    }
    symlink("..one", inner.join("..data")).unwrap();
    symlink("..data/shop", inner.join("shop")).unwrap();
    symlink("elsewhere/token", above.join("through")).unwrap();
    fs::hard_link(elsewhere.join("linked"), elsewhere.join("second")).unwrap();

    let mut watch = FileWatch::whole(inner.clone(), |path| {
        path.extension().is_some_and(|e| e == "yaml")
    });
    let followed = [
        inner.join("shop"),
        above.join("through"),
        elsewhere.join("coming"),
    ];
    let mut follow = || watch.follow(followed.iter().map(PathBuf::as_path));
    assert!(follow(), "all is new");
    assert!(!follow(), "nothing is new");
    let followed = watch.followed.lock();
    let wakes = |path: &str| followed.is_relevant(&written(above.join(path)));
    for path in [
        "inner",
        "inner/one.yaml",
        "inner/new.yaml",
        "inner/shop",
        "inner/..data",
        "inner/..one/shop",
        "through",
        "elsewhere/token",
        "elsewhere/coming",
        "elsewhere/second",
        "elsewhere/gone",
    ] {
        assert!(wakes(path), "{path}");
    }
    for path in ["above.log", "inner/one.key", "elsewhere/log"] {
        assert!(!wakes(path), "{path}");
    }
    assert!(
        followed.is_relevant(&Event::new(EventKind::Any)),
        "of whatever it may be"
    );
    let lost = written(above.join("above.log")).set_flag(Flag::Rescan);
    assert!(followed.is_relevant(&lost), "others went unheard");
    drop(followed);
    let _ = fs::remove_dir_all(above);
}

#[test]
fn what_is_followed_from_now_on_is_looked_at_again() {
    let folder = folder("again");
    let (one, two) = (folder.join("one"), folder.join("two"));
    let mut watch = FileWatch::default();
    assert!(watch.follow([one.as_path()]));
    assert!(
        watch.follow([one.as_path(), two.as_path()]),
        "it may have been written before"
    );
    assert!(!watch.follow([two.as_path()]));
    assert!(!watch.followed.lock().places.contains(&one));
    let _ = fs::remove_dir_all(folder);
}

#[tokio::test]
async fn a_change_is_not_lost_if_its_report_is_dropped_while_it_settles() {
    let place = folder("dropped");
    let file = place.join("token");
    fs::write(&file, "old").unwrap();
    let mut watch = FileWatch::default();
    watch.follow([file.as_path()]);
    fs::write(&file, "new").unwrap();
    while !watch.is_settling {
        // Dropped long before a change has settled.
        let _ = tokio::time::timeout(SETTLE / 10, watch.changed()).await;
    }
    let reported = tokio::time::timeout(SETTLE * 50, watch.changed()).await;
    fs::remove_dir_all(place).unwrap();
    assert!(reported.is_ok(), "the change is reported");
}
