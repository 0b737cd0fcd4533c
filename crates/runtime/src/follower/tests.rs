//! A follower with a scheduling thread that answers its requests.

use berth_scheduler::{Event, Settings};
use serde_json::json;

use super::*;
use crate::kept_plugins::tests::asked;

fn pod(name: &str) -> Event {
    let pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"nodeName": "n1", "schedulerName": "other", "containers": []},
    });
    Event::PodApplied(Box::new(serde_json::from_value(pod).expect("a pod")))
}

async fn names(follower: &Follower) -> Option<Vec<String>> {
    follower.read_pods(names_in).await
}

fn names_in(pods: PodList<'_>) -> Vec<String> {
    let mut names: Vec<String> = pods.pods().map(|pod| pod.name().to_owned()).collect();
    names.sort();
    names
}

fn n_on_nodes(view: &ClusterView) -> usize {
    view.cache().sizes().pods
}

/// A scheduling thread that handles earlier events before each request. Returns the number of copies that ended.
fn scheduling_thread(
    mut requests: mpsc::Receiver<FollowRequest>,
    incoming: Receiver<Event>,
) -> thread::JoinHandle<usize> {
    thread::spawn(move || {
        let mut scheduler = Scheduler::new(Settings::default(), Vec::new());
        let mut n_ended = 0;
        while let Some(request) = requests.blocking_recv() {
            incoming.try_iter().for_each(|event| scheduler.handle(event, Time(1)));
            n_ended += usize::from(matches!(request, FollowRequest::End(_)));
            request.answer(&mut scheduler, Time(1));
        }
        n_ended
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_sees_what_the_scheduler_knows_when_it_asks() {
    let (sender, requests) = mpsc::channel(1);
    let follower = Follower::start(sender).expect("a thread");
    let (events, incoming) = channel::channel::<Event>();
    let scheduling = scheduling_thread(requests, incoming);
    let expected = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
    events.send(pod("a")).expect("the thread lives");
    assert_eq!(names(&follower).await, expected(&["a"]));
    events.send(pod("b")).expect("the thread lives");
    assert_eq!(names(&follower).await, expected(&["a", "b"]));
    events.send(pod("c")).expect("the thread lives");
    assert_eq!(follower.read(n_on_nodes).await, Some(3), "a reader of nodes sees the pods on them");
    events.send(pod("d")).expect("the thread lives");
    assert_eq!(names(&follower).await, expected(&["a", "b", "c", "d"]));
    assert_eq!(follower.read(n_on_nodes).await, Some(4));
    drop(follower);
    assert_eq!(scheduling.join().expect("no panic"), 0, "with the last reader the follower ends");
}

/// A scheduling thread that answers, until the follower is gone.
fn scheduling(mut requests: mpsc::Receiver<FollowRequest>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut scheduler = Scheduler::new(Settings::default(), Vec::new());
        scheduler.handle(pod("a"), Time(1));
        while let Some(request) = requests.blocking_recv() {
            request.answer(&mut scheduler, Time(1));
        }
    })
}

fn is_known(copied: &mut Copied) -> bool {
    copied.view.find_pod("default", "a").is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_sees_the_whole_copy_and_has_parts() {
    let (sender, requests) = mpsc::channel(1);
    let follower = Follower::start(sender).expect("two threads");
    let scheduling = scheduling(requests);
    assert_eq!(follower.ask_further(is_known).await, Some(true), "the first copy is filled even for this");
    assert_eq!(follower.ask(|copied| asked(&mut copied.plugins)).await.as_deref(), Some("asked 1, followed 0"));
    let further = follower.ask_further(|copied| asked(&mut copied.plugins)).await;
    assert!(further.is_some_and(|answer| answer.starts_with("asked 2, ")), "with the plugins of the question before");
    drop(follower);
    scheduling.join().expect("no panic");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_panics_costs_only_its_answer() {
    let (sender, requests) = mpsc::channel(1);
    let follower = Follower::start(sender).expect("two threads");
    let scheduling = scheduling(requests);
    assert_eq!(follower.ask::<()>(|_| panic!("a defect")).await, None);
    assert_eq!(follower.ask(is_known).await, Some(true));
    assert_eq!(names(&follower).await, Some(vec!["a".to_owned()]));
    drop(follower);
    scheduling.join().expect("no panic");
}

#[test]
fn a_copy_that_begins_again_has_other_plugins() {
    let mut copied = Copied::default();
    for (is_first, expected) in
        [(true, "asked 1, followed 0"), (false, "asked 2, followed 0"), (true, "asked 1, followed 0")]
    {
        copied.apply(ChangeBatch { is_first, ..ChangeBatch::default() });
        assert_eq!(asked(&mut copied.plugins), expected);
    }
}

/// The niceness of the calling thread.
#[cfg(target_os = "linux")]
fn niceness() -> Option<String> {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("it is mounted");
    // The name of the thread is in parentheses, before the third field. The niceness is the 19th field.
    stat.rsplit_once(')')?.1.split_whitespace().nth(16).map(str::to_owned)
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn questions_of_people_have_the_priority_of_the_process() {
    let (sender, requests) = mpsc::channel(1);
    drop(requests);
    let follower = Follower::start(sender).expect("two threads");
    assert_eq!(follower.ask(|_| niceness()).await, Some(niceness()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduling_thread_that_has_ended_is_no_reason_to_wait() {
    let (sender, requests) = mpsc::channel(1);
    let follower = Follower::start(sender).expect("a thread");
    drop(requests);
    assert_eq!(names(&follower).await, Some(Vec::new()), "an empty copy, which says that it is not whole");
    assert_eq!(follower.read(ClusterView::is_complete).await, Some(false));
    assert_eq!(follower.totals().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn totals_need_no_copy() {
    let (sender, mut requests) = mpsc::channel(1);
    let follower = Follower::start(sender).expect("a thread");
    let scheduling = thread::spawn(move || {
        let mut scheduler = Scheduler::new(Settings::default(), Vec::new());
        let request = requests.blocking_recv().expect("a request");
        assert!(matches!(request, FollowRequest::Totals(_)), "{request:?}");
        request.answer(&mut scheduler, Time(7));
    });
    let totals = Some(Totals { as_of: Time(7), ..Totals::default() });
    assert_eq!(follower.totals().await, totals);
    scheduling.join().expect("no panic");
    assert_eq!(follower.totals().await, totals, "the totals of the last answer have their time");
}

/// A copy that belongs to no thread.
fn shared(requests: mpsc::Sender<FollowRequest>) -> SharedCopy {
    SharedCopy { kept: Arc::default(), requests }
}

fn read_names(shared: &SharedCopy) -> Vec<String> {
    let (answer, names) = channel::sync_channel(1);
    let read = move |pods: PodList<'_>| answer.try_send(names_in(pods)).expect("the reader waits");
    shared.read(AsOf::Now, Read::Pods(Box::new(read)));
    names.recv().expect("an answer")
}

fn read_n_on_nodes(shared: &SharedCopy) -> usize {
    let (answer, number) = channel::sync_channel(1);
    let read = move |copied: &mut Copied| answer.try_send(n_on_nodes(&copied.view)).expect("the reader waits");
    shared.read(AsOf::Now, Read::Nodes(Box::new(read)));
    number.recv().expect("an answer")
}

/// A follower that waits for readers has no copy. If no reader comes, the follower would never drop the copy that the
/// explainer made.
#[test]
fn the_follower_takes_care_of_a_copy_that_the_explainer_makes() {
    let (sender, requests) = mpsc::channel(1);
    drop(requests);
    let (reads, incoming) = channel::sync_channel(1);
    let (_, questions) = channel::sync_channel(1);
    let explaining = ExplainerThread { questions, reads, shared: shared(sender) };
    let is_sent = || {
        explaining.answer(AsOf::Now, Box::new(|_: &mut Copied| ()));
        incoming.try_recv().is_ok()
    };
    assert_eq!([is_sent(), is_sent()], [true, false], "the follower has the copy already at the second question");
}

#[test]
fn a_question_whose_caller_has_gone_is_left_out() {
    let (sender, _requests) = mpsc::channel(1);
    let (reads, _incoming) = channel::sync_channel(1);
    let (asking, questions) = channel::sync_channel(3);
    let explaining = ExplainerThread { questions, reads, shared: shared(sender) };
    let waiting = Arc::new(());
    for (as_of, caller) in
        [(AsOf::Before, Weak::new()), (AsOf::Now, Arc::downgrade(&waiting)), (AsOf::Before, Weak::new())]
    {
        let question = Question { as_of, caller, read: Box::new(|_: &mut Copied| ()) };
        asking.try_send(question).expect("there is room");
    }
    drop(asking);
    let question = explaining.next_question(Duration::ZERO).expect("one caller waits");
    assert_eq!((question.as_of, question.is_awaited()), (AsOf::Now, true));
    drop(waiting);
    assert!(!question.is_awaited());
    assert!(explaining.next_question(Duration::ZERO).is_none(), "the last caller has gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_is_known_to_wait_until_it_has_gone() {
    let (questions, incoming) = channel::sync_channel(1);
    let (reads, _incoming_reads) = channel::sync_channel(1);
    let (requests, _scheduling) = mpsc::channel(1);
    let follower = Follower { reads, questions, requests, last_totals: Arc::default() };
    let asking = tokio::spawn(async move { follower.ask(is_known).await });
    let question = tokio::task::spawn_blocking(move || incoming.recv()).await.expect("no panic").expect("a question");
    assert!(question.is_awaited());
    asking.abort();
    assert!(asking.await.is_err_and(|error| error.is_cancelled()));
    assert!(!question.is_awaited());
}

/// The scheduling thread made a batch before the reader came, and the batch arrives only now.
#[test]
fn a_late_batch_is_not_what_a_reader_waits_for() {
    let mut scheduler = Scheduler::new(Settings::default(), Vec::new());
    let (sender, mut requests) = mpsc::channel(1);
    let (late, awaited) = channel::sync_channel(1);
    FollowRequest::Changes(CopyKind::Shown, late).answer(&mut scheduler, Time(1));
    let shared = shared(sender);
    *shared.lock() = Some(Kept { awaited: Some(awaited), ..Kept::new() });
    let (events, incoming) = channel::channel::<Event>();
    events.send(pod("a")).expect("the receiver is here");
    let scheduling = thread::spawn(move || {
        while let Some(request) = requests.blocking_recv() {
            incoming.try_iter().for_each(|event| scheduler.handle(event, Time(2)));
            request.answer(&mut scheduler, Time(2));
        }
    });
    assert_eq!(read_names(&shared), ["a"]);
    drop(shared);
    scheduling.join().expect("no panic");
}

#[test]
fn pods_are_taken_off_nodes_that_nobody_reads() {
    let (sender, requests) = mpsc::channel(1);
    let (events, incoming) = channel::channel::<Event>();
    let scheduling = scheduling_thread(requests, incoming);
    let shared = shared(sender);
    events.send(pod("a")).expect("the thread lives");
    assert_eq!(read_n_on_nodes(&shared), 1);
    let long_ago = Instant::now().checked_sub(KEPT_FOR).expect("the machine has been up for a minute");
    shared.lock().as_mut().expect("it was read").nodes_read_at = long_ago;
    assert_eq!(read_names(&shared), ["a"]);
    assert_eq!(n_on_nodes(&shared.lock().as_ref().expect("it was read").copied.view), 0);
    assert!(!shared.is_filled(), "the copy is not filled before the next question");
    assert_eq!(read_n_on_nodes(&shared), 1, "a reader fills the copy again");
    drop(shared);
    scheduling.join().expect("no panic");
}
