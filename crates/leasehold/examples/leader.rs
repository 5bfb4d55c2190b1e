//! Three web servers, one of which leads; each tells visitors who. When it goes,
//! another one leads.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut nodes = std::collections::BTreeMap::new();
    for _ in 0..3 {
        let session = leasehold::connect("memory:shop").await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        nodes.insert(listener.local_addr()?.to_string(), session.clone());
        tokio::spawn(serve(listener, session));
    }
    while let Some(any) = nodes.keys().next() {
        let (mut node, mut answer) = (TcpStream::connect(any).await?, String::new());
        node.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
        node.read_to_string(&mut answer).await?;
        // Nobody leads for a moment, or one who goes: a visitor asks again.
        let leader = answer.rsplit('\n').next().unwrap_or_default();
        if let Some(session) = nodes.remove(leader) {
            println!("{leader} leads");
            session.close().await;
        }
    }
    Ok(())
}

async fn serve(listener: TcpListener, session: leasehold::Session) -> std::io::Result<()> {
    let (election, address) = (session.election("shop/leader"), listener.local_addr()?);
    let stand = async {
        while let Ok(leadership) = election.campaign(address.to_string()).await {
            leadership.guard().lost().await; // or what only the leader does
        }
    };
    let answer = async {
        while let Ok((mut visitor, _)) = listener.accept().await {
            let _ = visitor.read(&mut [0; 1024]).await;
            let leader = election.leader().await.ok().flatten();
            let leader = leader.map_or(String::new(), |leader| leader.text().into_owned());
            let answer = format!("HTTP/1.0 200 OK\r\n\r\n{leader}");
            drop(visitor.write_all(answer.as_bytes()).await);
        }
    };
    tokio::join!(stand, answer);
    Ok(())
}
