// Every page works without this: it tells how far time has moved, and puts the focus back where it was.
"use strict";
(() => {
  const journey = document.getElementById("journey");
  const FOCUS = "duebook-focus";

  // After an action the page is loaded anew: what came of it is told once more, so that it is heard, and the button
  // that was pressed has the focus again.
  const focus = sessionStorage.getItem(FOCUS);
  sessionStorage.removeItem(FOCUS);
  const again = focus && document.getElementById(focus);
  const notice = document.getElementById("notice");
  if (notice.textContent.trim()) {
    notice.tabIndex = -1;
    notice.focus();
  } else if (again) {
    again.focus();
    const told = journey.textContent;
    journey.textContent = "";
    setTimeout(() => { journey.textContent = told; }, 150);
  }

  const travel = document.getElementById("travel");
  if (travel) {
    travel.addEventListener("submit", (event) => {
      if (event.submitter) sessionStorage.setItem(FOCUS, event.submitter.id);
      journey.textContent = "Time is moving …";
    });
  }

  async function watch() {
    try {
      const answer = await fetch("/time", { headers: { Accept: "application/json" } });
      const state = await answer.json();
      document.getElementById("now").textContent = state.now;
      if (!state.moving) {
        if (again) sessionStorage.setItem(FOCUS, focus);
        location.reload();
        return;
      }
      journey.textContent = `Time is moving; it is ${state.now} …`;
    } catch {
      journey.textContent = "The console does not answer: is it still running?";
    }
    setTimeout(watch, 400);
  }
  if (journey && journey.dataset.moving === "yes") watch();
})();
