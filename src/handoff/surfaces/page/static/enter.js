// A browser that runs scripts need not press the button; a program that only previews links does not come this far.
document.getElementById("enter").submit();
