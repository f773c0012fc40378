// Fetches the document again and puts its parts in the place of those shown,
// so that the page keeps its place. Without it the browser reloads the page.
(() => {
  "use strict";
  const every = 5000;
  const part = (from, id) => from.getElementById(id);

  const replace = (fresh, id) => {
    const old = part(document, id), now = part(fresh, id);
    if (old && now && old.innerHTML !== now.innerHTML) old.replaceChildren(...now.childNodes);
    if (old && now) old.className = now.className;
  };

  const reading = () => {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed; // what somebody copies must not go away
  };

  const refresh = async () => {
    if (document.hidden || reading()) return;
    let text = "";
    try {
      const answer = await fetch(location.pathname, { cache: "no-store" });
      if (answer.ok) text = await answer.text();
    } catch { /* told below */ }
    part(document, "gone").hidden = text !== "";
    if (text === "") return;
    const fresh = new DOMParser().parseFromString(text, "text/html");
    document.title = fresh.title;
    part(document, "top").className = part(fresh, "top").className;
    for (const id of ["summary", "at", "main", "facts"]) replace(fresh, id);
  };

  setInterval(refresh, every);
  document.addEventListener("visibilitychange", refresh);
})();
