//! Three web servers, one of which leads. The others send visitors on to it,
//! and when it goes another one leads.

use std::time::Duration;

use leasehold::Session;
use leasehold::election::Election;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const LONGEST: Duration = Duration::from_secs(8);

#[tokio::main]
async fn main() -> leasehold::Result<()> {
    let folder = tempfile::tempdir().expect("a folder for the store");
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(Node::start(&url).await?);
    }
    let first = leader_seen_by(&nodes).await;
    println!("{first} leads");

    let at = nodes.iter().position(|node| node.address == first);
    nodes.remove(at.expect("one of the three")).stop().await;
    let second = leader_seen_by(&nodes).await;
    println!("{second} leads");
    assert_ne!(first, second);
    Ok(())
}

struct Node {
    address: String,
    session: Session,
    tasks: [JoinHandle<()>; 2],
}

impl Node {
    async fn start(url: &str) -> leasehold::Result<Self> {
        let session = leasehold::connect(url).await?;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let election = session.election("shop/leader");
        let tasks = [
            tokio::spawn(serve(listener, election.clone(), address.clone())),
            tokio::spawn(stand(election, address.clone())),
        ];
        Ok(Self {
            address,
            session,
            tasks,
        })
    }

    /// As a deployment does it: others lead before we are gone for good.
    async fn stop(self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.session.close().await;
    }
}

/// Stands for election, and does what only the leader does while it leads.
async fn stand(election: Election, address: String) {
    while let Ok(leadership) = election.campaign(&address).await {
        leadership.guard().lost().await;
    }
}

/// Answers visitors; whoever does not lead sends them on to the one that does.
async fn serve(listener: TcpListener, election: Election, address: String) {
    while let Ok((mut visitor, _)) = listener.accept().await {
        let leader = election.leader().await.ok().flatten();
        let answer = match leader.map(|leader| leader.text().into_owned()) {
            Some(leader) if leader == address => format!("200 OK\r\n\r\n{address}"),
            Some(leader) => format!("307 Temporary Redirect\r\nLocation: http://{leader}/\r\n\r\n"),
            None => "503 Service Unavailable\r\n\r\n".to_owned(),
        };
        let _ = visitor.read(&mut [0; 1024]).await;
        let _ = visitor
            .write_all(format!("HTTP/1.0 {answer}").as_bytes())
            .await;
    }
}

/// Visits every node until they all send us to one leader, which says so itself.
async fn leader_seen_by(nodes: &[Node]) -> String {
    let seen = async {
        loop {
            let mut leaders = Vec::new();
            for node in nodes {
                leaders.push(visit(&node.address).await);
            }
            leaders.dedup();
            if let [Some(leader)] = &leaders[..] {
                return leader.clone();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LONGEST, seen).await.expect("a leader")
}

/// Who leads, by this node: its body if it is itself, else where it sends us.
async fn visit(address: &str) -> Option<String> {
    let mut node = TcpStream::connect(address).await.ok()?;
    node.write_all(b"GET / HTTP/1.0\r\n\r\n").await.ok()?;
    let mut answer = String::new();
    node.read_to_string(&mut answer).await.ok()?;
    if answer.starts_with("HTTP/1.0 200") {
        return answer.split("\r\n\r\n").nth(1).map(str::to_owned);
    }
    let (_, rest) = answer.split_once("Location: http://")?;
    rest.split('/').next().map(str::to_owned)
}
