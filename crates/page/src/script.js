// Keeps a view up to date: the server sends newer renderings of the view as Server-Sent Events, and each replaces the view.
"use strict";

(() => {
  const view = document.getElementById("view");
  const link = document.getElementById("link");
  if (!view || !link || !window.EventSource) return;

  // The milliseconds without an event after which the connection counts as lost.
  const LOST_AFTER = 4000 + 1.5 * Number(view.dataset.every || 1000);
  let heard = Date.now();
  let isPaused = false;

  const ago = (milliseconds) => {
    const seconds = Math.max(0, Math.round(milliseconds / 1000));
    return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  };

  const tell = () => {
    const time = view.querySelector("time[data-milliseconds]");
    const shown = time ? Date.now() - Number(time.dataset.milliseconds) : 0;
    const isLost = Date.now() - heard > LOST_AFTER;
    document.body.classList.toggle("lost", isLost);
    if (isPaused) link.textContent = `paused; ${ago(shown)} old`;
    else if (isLost) link.textContent = `connection lost ${ago(Date.now() - heard)} ago, trying again; this is ${ago(shown)} old`;
    else link.textContent = `up to date, ${ago(shown)} old`;
  };

  // Open elements stay open, and the focus stays where it is.
  const show = (text) => {
    const next = new DOMParser().parseFromString(text, "text/html").getElementById("view");
    if (!next) return;
    const active = document.activeElement;
    const focused = active && view.contains(active) ? active.getAttribute("href") : null;
    const open = [...view.querySelectorAll("details")].map((details) => details.open);
    const boxes = [...view.querySelectorAll(".scroll")];
    const focusedBox = boxes.indexOf(active);
    const scrolled = boxes.map((box) => box.scrollLeft);
    view.replaceChildren(...next.childNodes);
    view.querySelectorAll("details").forEach((details, n) => { details.open = open[n] || false; });
    view.querySelectorAll(".scroll").forEach((box, n) => { box.scrollLeft = scrolled[n] || 0; });
    if (focusedBox >= 0) view.querySelectorAll(".scroll")[focusedBox]?.focus({ preventScroll: true });
    if (focused) view.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  };

  let source;
  const follow = () => {
    source = new EventSource(location.pathname + location.search);
    source.addEventListener("view", (event) => {
      heard = Date.now();
      // Text that is being selected would be lost.
      isPaused = !document.getSelection().isCollapsed;
      if (!isPaused) show(event.data);
      tell();
    });
    source.addEventListener("error", () => {
      // The browser tries again by itself, unless the answer was none to follow: signed out, as a rule.
      if (source.readyState === EventSource.CLOSED) setTimeout(follow, 5000);
    });
  };

  follow();
  setInterval(tell, 1000);
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", (event) => { if (event.persisted) follow(); });
})();
