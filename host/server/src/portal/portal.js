// The script of all pages. Every page works without it. It refreshes the parts of a job's page, adds new lines to a log, asks
// before a form ends something, and lets ages grow. A tab has at most one connection.
"use strict";
(() => {
  // How long the connection waits before it is opened again, in milliseconds.
  const SHORTEST = 1000;
  const LONGEST = 30000;
  // The most characters of a log on a page.
  const MOST_LOG = 500000;

  const place = document.querySelector("[data-live]");
  let source = null;
  let pause = SHORTEST;
  let last = "";

  /** Replaces the contents of a part, unless the user is in it. The server has escaped them. */
  function showPart(part) {
    const section = document.getElementById(part.id);
    if (!section || section.contains(document.activeElement)) return;
    if (section.innerHTML !== part.html) section.innerHTML = part.html;
  }

  /** Adds lines to a log, and stays at its end if the user was there. */
  function addLog(log) {
    const isAtEnd = place.scrollHeight - place.scrollTop - place.clientHeight < 50;
    place.append(document.createTextNode(log.text));
    while (place.textContent.length > MOST_LOG && place.childNodes.length > 1) place.firstChild.remove();
    if (isAtEnd) place.scrollTop = place.scrollHeight;
  }

  function close() {
    if (source) source.close();
    source = null;
  }

  function open() {
    if (source || document.hidden) return;
    const address = new URL(place.dataset.live, location.href);
    // A new connection goes on where the last one ended.
    if (last && address.searchParams.has("from")) address.searchParams.set("from", last);
    source = new EventSource(address);
    source.onmessage = (event) => {
      pause = SHORTEST;
      if (event.lastEventId) last = event.lastEventId;
      const news = JSON.parse(event.data);
      if (news === "end") {
        close();
        delete place.dataset.live;
      } else if (news.part) {
        showPart(news.part);
      } else if (news.log) {
        addLog(news.log);
      }
    };
    source.onerror = () => {
      close();
      if (!place.dataset.live) return;
      setTimeout(open, pause);
      pause = Math.min(pause * 2, LONGEST);
    };
  }

  if (place) {
    if (place.matches("pre")) place.scrollTop = place.scrollHeight;
    // A tab that is not seen needs no connection.
    document.addEventListener("visibilitychange", () => {
      if (!place.dataset.live) return;
      if (document.hidden) close();
      else open();
    });
    addEventListener("pagehide", close);
    open();
  }

  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !confirm(question)) {
      event.preventDefault();
      return;
    }
    // A form that is sent twice does nothing more than one that is sent once, but takes time.
    const button = event.submitter;
    if (button && event.target.method === "post") setTimeout(() => { button.disabled = true; }, 0);
  });
  // A page that the browser kept has the buttons as they were.
  addEventListener("pageshow", () => document.querySelectorAll("button:disabled").forEach((button) => { button.disabled = false; }));

  /** An age, as the server writes it. */
  function age(seconds) {
    if (seconds < 60) return `${seconds.toFixed(1)} s ago`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s ago`;
    return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min ago`;
  }
  setInterval(() => {
    for (const element of document.querySelectorAll(".aged")) {
      element.textContent = age(Math.max(0, (Date.now() - Date.parse(element.title)) / 1000));
    }
  }, 1000);

  const refused = document.querySelector(".refused");
  if (refused) refused.focus();
})();
