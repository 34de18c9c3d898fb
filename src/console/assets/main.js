document.querySelector("h1").dataset.ready = "true";
